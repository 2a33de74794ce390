"""What users pass as metrics: names, functions, objects of other libraries; and groups of them."""

from __future__ import annotations

import functools
import sys
import types

import numpy as np
import pytest

import flambeau as torch
from flambeau.train import Trainer
from flambeau.train.metrics import MSE, Accuracy, EpochMetric, Mean, MetricGroup, adapt
from flambeau.train.metrics.foreign import to_snake_case


def l1(y_pred, y):
    return (y_pred - y).abs().mean()


class Foreigner:
    """An object as torchmetrics has them."""

    higher_is_better = True

    def __init__(self):
        self.reset()

    def reset(self):
        self.total = torch.zeros(())

    def update(self, preds, target):
        self.total = self.total + (preds - target).sum()

    def compute(self):
        return self.total


class Paired(Foreigner):
    """An object as ignite has them: one argument."""

    def update(self, output):
        super().update(*output)

    def __getattr__(self, name):
        """ignite makes something of every name."""
        return lambda *arguments: self


def test_dicts_lists_names():
    metrics = adapt({"acc": Accuracy(), "error": l1, "squared": "mse"})
    assert [type(m).__name__ for m in metrics.values()] == ["Accuracy", "Mean", "MSE"]
    assert [m.name for m in metrics.values()] == ["acc", "error", "squared"]
    assert list(adapt(["accuracy", l1, ("mine", lambda a, b: 0), MSE])) == [
        "accuracy", "l1", "mine", "mse",
    ]
    assert list(adapt("top5")) == ["top5"]
    assert adapt(None) == {}
    assert isinstance(adapt(torch.nn.functional.l1_loss)["l1_loss"], Mean)
    assert adapt("cross_entropy")["cross_entropy"].higher_is_better is False
    assert list(adapt(torch.nn.L1Loss())) == ["L1Loss"]


def test_what_is_wrong_is_told():
    with pytest.raises(ValueError, match="did you mean 'accuracy'"):
        adapt("acuracy")
    with pytest.raises(ValueError, match="two metrics are called 'l1'"):
        adapt([l1, l1])
    with pytest.raises(TypeError, match="not int"):
        adapt([3])
    half = type("Half", (), {"update": lambda self, output, target: None})
    with pytest.raises(TypeError, match="Half has no compute and no reset"):
        adapt([half()])
    with pytest.raises(ValueError, match="'loss' is the name of the loss"):
        Trainer(None, metrics={"loss": "accuracy"})


@pytest.mark.parametrize("value", [None, "high"])
def test_what_is_no_number_says_whose(value):
    metric = adapt({"odd": lambda output, target: value})["odd"]
    with pytest.raises(TypeError, match="metric 'odd': expected a number for the batch, got"):
        metric.update(torch.ones(2), torch.ones(2))


def test_the_best_k_of_any_k():
    metrics = adapt(["top1", "top2", "top10"])
    assert [(name, metric.k) for name, metric in metrics.items()] == [
        ("top1", 1), ("top2", 2), ("top10", 10),
    ]
    with pytest.raises(ValueError, match="top0"):
        adapt("top0")


def test_functions_that_name_the_truth_first():
    def signed(y_true, y_pred):
        return (y_pred - y_true).mean()

    assert list(adapt(signed)) == ["signed"]
    metric = adapt({"bias": signed})["bias"]
    metric.update(torch.tensor([3.0]), torch.tensor([1.0]))  # (output, target)
    assert metric.name == "bias"
    assert metric.compute() == 2.0


@pytest.mark.parametrize("kind", [Foreigner, Paired])
def test_foreign_objects(kind):
    metric = adapt({"sum": kind()})["sum"]
    metric.update(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0]))
    metric.update(torch.tensor([4.0]), torch.tensor([0.0]))
    assert metric.compute() == 7.0
    assert type(metric.compute()) is float
    again = adapt({"sum": kind()})["sum"]
    again.load_state_dict(metric.state_dict())
    assert again.compute() == 7.0
    metric.reset()
    assert metric.compute() == 0.0
    with pytest.raises(NotImplementedError, match="merge"):
        metric.merge(again)
    assert to_snake_case("MulticlassF1Score") == "multiclass_f1_score"


@pytest.fixture
def sklearn():
    """A module with scikit-learn's signatures and (true, guess) order."""
    module = types.ModuleType("sklearn.metrics")

    def accuracy_score(y_true, y_pred, *, normalize=True):
        assert y_true.shape == y_pred.shape
        return float((y_true == y_pred).mean()) if normalize else int((y_true == y_pred).sum())

    def roc_auc_score(y_true, y_score):
        return y_score

    def mean_absolute_error(y_true, y_pred):
        return float(np.abs(y_true - y_pred).mean() + (y_true > 5).sum())

    for function in (accuracy_score, roc_auc_score, mean_absolute_error):
        function.__module__ = "sklearn.metrics._some"
        setattr(module, function.__name__, function)
    return module


def test_scikit_learn(sklearn):
    logits, wanted = torch.tensor([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]), torch.tensor([0, 1, 1])
    count = functools.partial(sklearn.accuracy_score, normalize=False)
    group = MetricGroup([sklearn.accuracy_score, ("count", count), sklearn.roc_auc_score])
    for part in (slice(0, 2), slice(2, 3)):
        group.update(logits[part], wanted[part])
    values = group.compute()
    assert values["accuracy_score"] == pytest.approx(2 / 3)
    assert values["count"] == 2
    assert values["roc_auc_score"] == pytest.approx(torch.softmax(logits, 1)[:, 1].numpy())
    assert group["accuracy_score"].higher_is_better is True

    error = adapt(sklearn.mean_absolute_error)["mean_absolute_error"]
    error.update(torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 0.0]))
    assert error.compute() == 2.0  # nobody is above 5: the first argument is the truth
    assert error.higher_is_better is False
    binary = adapt(sklearn.accuracy_score)["accuracy_score"]
    binary.update(torch.tensor([[1.0], [-3.0]]), torch.tensor([1, 0]))
    assert binary.compute() == 1.0


def test_batches_are_kept_as_copies():
    metric = EpochMetric(lambda output, target: output.sum())
    output = torch.ones(2)
    metric.update(output, torch.ones(2))
    output.zero_()
    assert metric.compute() == 2.0


def test_groups():
    group, other = MetricGroup(["accuracy", l1]), MetricGroup(["accuracy", l1])
    first, second = torch.tensor([1.0, -1.0], requires_grad=True), torch.tensor([1.0, 0.0])
    group.update(first, second)
    assert group.compute("valid/") == {"valid/accuracy": 1.0, "valid/l1": 0.5}
    other.load_state_dict(group.state_dict())
    other.update(-first, second)
    assert group.merge(other).compute()["accuracy"] == pytest.approx(2 / 3)
    group.reset()
    assert np.isnan(group.compute()["l1"])
    with pytest.raises(KeyError, match="the run"):
        MetricGroup("mse").load_state_dict(other.state_dict())
    assert len(group) == 2
    assert list(group) == ["accuracy", "l1"]


def test_twins_share_what_functions_belong_to():
    class Owner:
        scale = 1.0

        def scaled(self, output, target):
            return output.mean() * self.scale

    owner = Owner()
    group = MetricGroup([owner.scaled, ("sum", Foreigner())])
    group.update(torch.ones(2), torch.zeros(2))
    twin = group.twin()
    owner.scale = 3.0
    twin.update(torch.ones(2), torch.zeros(2))
    assert twin.compute() == {"scaled": 3.0, "sum": 2.0}
    assert group.compute() == {"scaled": 1.0, "sum": 2.0}


def test_dicts_of_values_are_flattened():
    class Two(Foreigner):
        def compute(self):
            return {"a": torch.tensor(1.0), "b": torch.tensor([1.0, 2.0])}

    group = MetricGroup({"two": Two()})
    assert group.scalars() == {"two/a": 1.0}
    assert group.compute()["two/b"].tolist() == [1.0, 2.0]


@pytest.mark.parity
def test_objects_of_pytorch_get_its_tensors():
    real = pytest.importorskip("torch")
    assert sys.modules["torch"] is real

    class Module(real.nn.Module):
        def reset(self):
            self.total = 0.0

        def update(self, output, target):
            assert isinstance(output, real.Tensor)
            self.total += (output == target).sum()

        def compute(self):
            return self.total

    module = Module()
    module.reset()
    metric = adapt({"hits": module})["hits"]
    metric.update(torch.tensor([1, 2]), torch.tensor([1, 3]))
    assert metric.compute() == 1
