"""What every metric obeys: merged parts are the whole, order does not matter, reset forgets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau as torch
from flambeau.train.metrics import (
    AUROC, F1, MAE, MSE, R2, Accuracy, AveragePrecision, Brier, CalibrationError, CohenKappa,
    ConfusionMatrix, EpochMetric, LogLoss, MatthewsCorrelation, Mean, MeanIoU, Metric, Pearson,
    Perplexity, Precision, Recall, RunningAverage, Select, Spearman, TopK,
)

CLASSES = {
    "accuracy": Accuracy,
    "top2": lambda: TopK(2),
    "precision": lambda: Precision("none"),
    "recall": lambda: Recall("weighted"),
    "f1": F1,
    "confusion": ConfusionMatrix,
    "auroc": lambda: AUROC("none"),
    "perplexity": Perplexity,
    "mean": lambda: Mean(lambda output, target: output.mean()),
    "epoch": lambda: EpochMetric(lambda output, target: output[:, 0].max() - target.mean()),
    "kappa": CohenKappa,
    "mcc": MatthewsCorrelation,
    "iou": MeanIoU,
    "log_loss": LogLoss,
    "brier": Brier,
    "calibration": CalibrationError,
    "average_precision": AveragePrecision,
    "select": lambda: Select(Accuracy(), lambda output, target: (-output, target)),
}
NUMBERS = {"mse": MSE, "mae": MAE, "r2": R2, "binary": Accuracy, "binary_f1": F1,
           "binary_auroc": AUROC, "pearson": Pearson, "spearman": Spearman}


def data(seed: int, kind: str):
    random = np.random.default_rng(seed)
    n = int(random.integers(12, 40))
    target = np.arange(n) % 4
    if kind in CLASSES:
        return random.normal(size=(n, 4)).round(1), target
    if "binary" in kind:
        return random.normal(size=n).round(1), target % 2
    return random.normal(size=n), random.normal(size=n)


def update(metric, output, target):
    metric.update(torch.tensor(output), torch.tensor(target))
    return metric


@pytest.mark.filterwarnings("ignore:.*no area")
@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS])
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(1, 11), max_size=3, unique=True))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_parts_make_the_whole(name, seed, cuts):
    make = {**CLASSES, **NUMBERS}[name]
    output, target = data(seed, name)
    whole = update(make(), output, target).compute()

    batches, merged = make(), make()
    for part in np.split(np.arange(len(target)), sorted(cuts)):
        update(batches, output[part], target[part])
        assert merged.merge(update(make(), output[part], target[part])) is merged
    assert batches.compute() == pytest.approx(whole, rel=1e-9, abs=1e-12)
    assert merged.compute() == pytest.approx(whole, rel=1e-9, abs=1e-12)

    order = np.random.default_rng(seed).permutation(len(target))
    shuffled = update(make(), output[order], target[order]).compute()
    assert shuffled == pytest.approx(whole, rel=1e-9, abs=1e-12)

    resumed = make()
    resumed.load_state_dict(batches.state_dict())
    assert resumed.compute() == pytest.approx(whole, rel=1e-9, abs=1e-12)
    update(resumed, output, target)
    assert batches.compute() == pytest.approx(whole, rel=1e-9)  # states are not shared

    batches.reset()
    assert update(batches, output, target).compute() == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS])
def test_calling_gives_the_batch_alone(name):
    make = {**CLASSES, **NUMBERS}[name]
    output, target = data(7, name)
    metric = update(make(), output[:8], target[:8])
    batch = metric(torch.tensor(output[8:]), torch.tensor(target[8:]))
    assert batch == pytest.approx(update(make(), output[8:], target[8:]).compute())
    whole = update(make(), output, target).compute()
    assert metric.compute() == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("name", ["accuracy", "top2", "f1", "auroc", "perplexity", "mean", "epoch",
                                  "mse", "mae", "r2"])
def test_nothing_is_nan(name):
    assert math.isnan({**CLASSES, **NUMBERS}[name]().compute())


def test_mean_is_weighted_by_batch_size():
    mean = Mean(lambda output, target: output.mean())
    update(mean, np.array([1.0, 3.0, 2.0]), np.zeros(3))
    update(mean, np.array([10.0]), np.zeros(1))
    assert mean.compute() == 4.0
    tokens = Mean(lambda output, target: output.mean(), weight=lambda output, target: 5)
    update(tokens, np.array([1.0]), np.zeros(1))
    assert tokens.weight == 5
    plain = Mean()
    plain.update(2.0, 3)
    plain.update(torch.tensor(6.0))
    assert plain.compute() == 3.0
    with pytest.raises(ValueError, match="one number"):
        Mean(lambda output, target: output).update(torch.ones(3), torch.ones(3))


def test_running_averages():
    values = [1.0, 5.0, 3.0, 3.0]
    expected = values[0]
    for value in values[1:]:
        expected = 0.9 * expected + 0.1 * value
    average, window = RunningAverage(momentum=0.9), RunningAverage(window=3)
    for value in values:
        average.update(value)
        window.update(value)
    assert average.compute() == pytest.approx(expected)
    assert window.compute() == pytest.approx(11 / 3)
    of_metric = RunningAverage(Accuracy(), momentum=0.5)
    for wanted in ([0, 0], [1, 1]):
        of_metric.update(torch.eye(2), torch.tensor(wanted))
    assert of_metric.compute() == 0.5
    assert of_metric.name == "running_accuracy"
    other = RunningAverage(momentum=0.9)
    other.update(8.0)
    assert average.merge(other).compute() == pytest.approx((expected * 4 + 8) / 5)


@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS])
def test_states_are_safe_to_load(name, tmp_path):
    make = {**CLASSES, **NUMBERS}[name]
    metric = update(make(), *data(3, name))
    torch.save(metric.state_dict(), tmp_path / "metric.pt")
    again = make()
    again.load_state_dict(torch.load(tmp_path / "metric.pt"))
    assert again.compute() == pytest.approx(metric.compute(), rel=1e-12)
    before = metric.compute()
    metric.twin().update(*map(torch.tensor, data(4, name)))
    assert metric.compute() == pytest.approx(before, rel=1e-12)


def test_state_of_another_metric_is_refused():
    with pytest.raises(KeyError, match="needs"):
        Accuracy().load_state_dict(MSE().state_dict())


def test_a_metric_of_ones_own():
    class Largest(Metric):
        name = "largest"
        states = ("value",)

        def reset(self):
            self.value = -math.inf

        def update(self, output, target):
            self.value = max(self.value, float(output.max()))

        def compute(self):
            return self.value

    largest = Largest()
    largest.reset()
    update(largest, np.array([1.0, 4.0]), np.zeros(2))
    assert largest.compute() == 4.0


def test_twins_of_a_metric_that_resets_in_place():
    class InPlace(Metric):
        states = ("values", "total")

        def __init__(self, owner):
            self.owner, self.values, self.total = owner, [], torch.zeros(())

        def reset(self):
            self.values.clear()
            self.total.zero_()

        def update(self, output, target):
            self.values.append(float(output.sum()))
            self.total += output.sum()

        def compute(self):
            return sum(self.values) + float(self.total)

    owner = object()
    metric = update(InPlace(owner), np.ones(3), np.ones(3))
    assert metric.twin().compute() == 0
    assert metric.twin().owner is owner
    assert metric(torch.ones(1), torch.ones(1)) == 2
    assert metric.compute() == 8
    again = InPlace(owner)
    again.load_state_dict(metric.state_dict())
    assert update(again, np.ones(1), np.ones(1)).compute() == 10


def test_tuples_say_what_to_do():
    with pytest.raises(TypeError, match="Select"):
        Accuracy().update((torch.eye(2), torch.eye(2)), torch.tensor([0, 1]))
