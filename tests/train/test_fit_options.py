"""What `fit` takes beside data and epochs: limits, splits, weights, and batches of other kinds."""

from __future__ import annotations

import tracemalloc
import types

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.train import Trainer
from flambeau.train.state.history import History
from flambeau.utils.data import DataLoader, TensorDataset

X = torch.linspace(-1, 1, 40).view(20, 2)
Y = (X.sum(1) > 0).long()


def trainer(loss="cross_entropy", **options) -> Trainer:
    torch.manual_seed(0)
    net = nn.Linear(2, 2)
    return Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), loss, compile=False, **options)


def test_arrays_may_be_two_arguments() -> None:
    apart = trainer().fit(X, Y, 2, progress=False)
    together = trainer().fit((X, Y), epochs=2, progress=False)
    assert apart == together


def test_history_is_a_table() -> None:
    history = trainer(metrics=["accuracy"]).fit(X, Y, 2, progress=False)
    assert isinstance(history, History)
    assert repr(history).splitlines()[0].split() == ["epoch", "loss", "accuracy"]
    assert history._repr_html_().count("<tr>") == 3


@pytest.mark.slow
def test_history_is_a_data_frame() -> None:
    pytest.importorskip("pandas")
    history = trainer().fit(X, Y, 2, progress=False)
    assert history.df.loc[2, "loss"] == history[1]["loss"]


@pytest.mark.parametrize(("limit", "steps"), [(2, 2), (0.5, 2), (1.0, 5), (9, 5)])
def test_limit(limit: float, steps: int) -> None:
    run = trainer()
    run.fit((X, Y), batch_size=4, limit=limit, progress=False)
    assert run.state.step == run.state.batches == steps


def test_max_steps_ends_in_the_middle_of_an_epoch() -> None:
    run = trainer()
    run.fit((X, Y), epochs=10, batch_size=4, max_steps=7, progress=False)
    assert (run.state.step, run.state.epoch) == (7, 2)


def test_overfit_trains_on_the_same_batches_and_validates_with_them() -> None:
    run, seen = trainer(), []
    run.on("step.end")(lambda run: seen.append(run.state.batch[0]))
    history = run.fit((X, Y), epochs=2, batch_size=4, overfit=2, progress=False)
    assert len(seen) == 4
    assert seen[0] is seen[2]
    assert seen[1].equal(X[4:8])
    assert "valid_loss" in history[0]


def test_fast_runs_a_batch_of_everything() -> None:
    run = trainer()
    history = run.fit((X, Y), (X, Y), epochs=5, batch_size=4, fast=True, progress=False)
    assert (run.state.step, len(history)) == (1, 1)
    assert "valid_loss" in history[0]


@pytest.mark.parametrize("data", [(X, Y), TensorDataset(X, Y)], ids=["arrays", "dataset"])
def test_validation_split_sets_the_last_samples_aside(data) -> None:
    run, seen = trainer(), []
    run.on("valid.step.end")(lambda run: seen.append(run.state.batch[0]))
    history = run.fit(data, validation_split=0.25, progress=False)
    assert torch.cat(seen).equal(X[15:])
    assert run.state.step == 1
    assert "valid_loss" in history[0]


def test_validation_split_of_a_loader_is_refused() -> None:
    with pytest.raises(TypeError, match="a loader cannot be split"):
        trainer().fit(DataLoader(TensorDataset(X, Y)), validation_split=0.5)
    with pytest.raises(ValueError, match="leaves a part empty"):
        trainer().fit((X, Y), validation_split=0.01)


def test_several_validations_have_names() -> None:
    history = trainer().fit((X, Y), {"clean": (X, Y), "noisy": (X + 1, Y)}, progress=False)
    assert {"valid_clean_loss", "valid_noisy_loss"} <= set(history[0])
    assert history[0]["valid_clean_loss"] != history[0]["valid_noisy_loss"]


def test_validation_every_few_steps() -> None:
    run, losses = trainer(), []
    run.on("step.end")(lambda run: losses.append(run.state.metrics.get("valid_loss")))
    run.fit((X, Y), (X, Y), batch_size=4, validate_every=2, progress=False)
    assert [loss is None for loss in losses] == [True, False, False, False, False]
    assert losses[1] != losses[3]
    assert run.net.training
    with pytest.raises(ValueError, match="needs validation data"):
        trainer().fit((X, Y), validate_every=2)


@pytest.mark.parametrize("weights", [{1: 3.0}, [1.0, 3.0], torch.tensor([1.0, 3.0])])
@pytest.mark.parametrize("loss", ["cross_entropy", nn.CrossEntropyLoss()])
def test_class_weights(loss, weights) -> None:
    run = trainer(loss)
    before = F.cross_entropy(run.net(X), Y, weight=torch.tensor([1.0, 3.0])).item()
    history = run.fit((X, Y), batch_size=20, shuffle=False, class_weight=weights, progress=False)
    assert history[0]["loss"] == pytest.approx(before, rel=1e-6)
    assert run.loss is trainer(loss).loss


def test_class_weights_of_a_loss_without_classes() -> None:
    with pytest.raises(TypeError, match="takes no weight"):
        trainer(nn.SmoothL1Loss()).fit((X, X), class_weight={0: 2.0})


def test_weights_of_samples() -> None:
    weight = torch.arange(20.0)
    run = trainer(weighted=True, metrics=["accuracy"])
    losses = F.cross_entropy(run.net(X), Y, reduction="none")
    expected = ((losses * weight).sum() / weight.sum()).item()
    history = run.fit((X, Y, weight), (X, Y, weight), batch_size=20, shuffle=False, progress=False)
    assert history[0]["loss"] == pytest.approx(expected, rel=1e-6)
    assert {"accuracy", "valid_loss", "valid_accuracy"} <= set(history[0])


def test_dict_batches_of_named_inputs() -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x)

    batches = [{"x": X[:10], "labels": Y[:10]}, {"x": X[10:], "labels": Y[10:]}]
    run = Trainer(Net(), "sgd", "cross_entropy", metrics=["accuracy"], compile=False)
    history = run.fit(batches, batches, epochs=2, progress=False)
    assert {"loss", "accuracy", "valid_loss", "valid_accuracy"} <= set(history[0])


@pytest.mark.parametrize("as_dict", [True, False], ids=["dict", "attributes"])
def test_models_that_return_their_loss(as_dict: bool) -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, inputs, labels=None):
            logits = self.linear(inputs)
            loss = None if labels is None else F.cross_entropy(logits, labels)
            output = {"loss": loss, "logits": logits}
            return output if as_dict else types.SimpleNamespace(**output)

    batches = [{"inputs": X, "labels": Y}]
    model = Model()
    run = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.5), metrics=["accuracy"],
                  compile=False)
    history = run.fit(batches, batches, epochs=20, progress=False)
    assert history[-1]["loss"] < history[0]["loss"]
    assert {"accuracy", "valid_loss", "valid_accuracy"} <= set(history[0])


def test_a_net_without_any_loss() -> None:
    with pytest.raises(ValueError, match="training needs a loss"):
        Trainer(nn.Linear(2, 2), "sgd", compile=False).fit((X, Y), progress=False)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Dropout(0.1), nn.Linear(512, 64))
            for _ in range(6)
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


@pytest.mark.parametrize("wanted", [True, nn.Sequential, ["blocks.0", "blocks.3"]])
def test_gradient_checkpointing_gives_the_same_numbers(wanted) -> None:
    x = torch.randn(64, 64)
    histories = []
    for option in (False, wanted):
        net = Deep()
        trainer = Trainer(
            net, torch.optim.SGD(net.parameters(), lr=0.01), "mse", compile=False
        )
        torch.manual_seed(1)
        histories.append(trainer.fit((x, x), (x, x), 2, progress=False, shuffle=False,
                                     gradient_checkpointing=option))
        assert all("forward" not in vars(module) for module in net.modules())
    for row, other in zip(*histories, strict=True):
        assert row == pytest.approx(other, rel=1e-6)


def test_gradient_checkpointing_takes_less_memory() -> None:
    x, peaks = torch.randn(512, 64), []
    for option in (False, True):
        net = Deep()
        trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.01), "mse", compile=False)
        tracemalloc.start()
        trainer.fit((x, x), epochs=1, batch_size=512, progress=False, gradient_checkpointing=option)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 0.5 * peaks[0]


def test_gradient_checkpointing_names_what_there_is_not() -> None:
    with pytest.raises(ValueError, match="Linear has no ModuleList or Sequential"):
        trainer().fit(X, Y, gradient_checkpointing=True)
    with pytest.raises(ValueError, match="no module 'wieght'"):
        trainer().fit(X, Y, gradient_checkpointing=["wieght"])
