"""Modules that hold their step: the numbers are those of a Trainer with the same net and loss."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from flambeau.train import EarlyStopping, Trainer, TrainableModule

X = torch.linspace(-1, 1, 60).view(30, 2)
Y = X.sum(1, keepdim=True)


class Regression(TrainableModule):
    def __init__(self, configured=None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(2, 1)
        self.configured, self.indices, self.calls = configured, [], []

    def forward(self, x):
        return self.linear(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.mse_loss(self(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.indices.append(batch_idx)
        self.log("val_mae", (self(x) - y).abs().mean(), prog_bar=True)
        return F.mse_loss(self(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return optimizer if self.configured is None else self.configured(optimizer)

    def on_train_epoch_end(self):
        self.calls.append(self.current_epoch)


def fit(trainer, epochs=3, **options):
    return trainer.fit((X, Y), (X, Y), epochs, batch_size=10, shuffle=False, progress=False,
                       **options)


def plain(**options):
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    return Trainer(net, optimizer, "mse", metrics=["mae"], compile=False, **options)


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"clip_norm": 0.1}])
def test_the_numbers_are_those_of_a_trainer(options) -> None:
    expected = fit(plain(**options))
    module = Regression()
    history = fit(Trainer(module, compile=False, **options))
    for row, other in zip(history, expected, strict=True):
        assert row["loss"] == other["loss"]
        assert row["valid_loss"] == pytest.approx(other["valid_loss"])
        assert row["valid_mae"] == pytest.approx(other["valid_mae"])
    assert module.indices == [0, 1, 2] * 3
    assert module.calls == [0, 1, 2]


def test_the_step_is_compiled_whatever_the_batch_number() -> None:
    module = Regression()
    trainer = Trainer(module)
    history = trainer.fit((X, Y), epochs=12, batch_size=10, shuffle=False, progress=False)
    expected = plain().fit((X, Y), epochs=12, batch_size=10, shuffle=False, progress=False)
    assert history[-1]["loss"] == pytest.approx(expected[-1]["loss"], rel=1e-4)
    trainer.exact()
    trainer.train_on_batch(X, Y)
    step = module._flambeau_step._step
    trainer.train_on_batch(X, Y)
    trainer.exact(False)
    assert step.compiled_kinds  # a program, which `attempt` finds again


def test_an_index_that_is_read_is_the_batch_number() -> None:
    class Counting(Regression):
        def training_step(self, batch, batch_idx):
            self.indices.append(batch_idx)
            return {"loss": super().training_step(batch, 0), "twice": 2.0 * batch_idx}

    module = Counting()
    history = Trainer(module, compile=False).fit(X, Y, 1, batch_size=10, progress=False)
    assert module.indices == [0, 1, 2]
    assert history[0]["twice"] == 2.0


@pytest.mark.parametrize("configured", [
    lambda o: ([o], [StepLR(o, 1, 0.5)]),
    lambda o: {"optimizer": o, "lr_scheduler": StepLR(o, 1, 0.5)},
    lambda o: {"optimizer": o,
               "lr_scheduler": {"scheduler": StepLR(o, 1, 0.5), "interval": "epoch"}},
])
def test_schedulers_in_all_of_lightnings_forms(configured) -> None:
    trainer = Trainer(Regression(configured), compile=False)
    fit(trainer)
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**3)


def test_a_scheduler_may_monitor_a_number() -> None:
    def configured(optimizer):
        plateau = ReduceLROnPlateau(optimizer, patience=0, threshold=1e9)
        schedule = {"scheduler": plateau, "monitor": "val_loss"}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    trainer = Trainer(Regression(configured), compile=False)
    fit(trainer)
    assert trainer.optimizer.param_groups[0]["lr"] < 0.1


def test_manual_optimization_with_two_optimizers() -> None:
    class Manual(Regression):
        automatic_optimization = False

        def training_step(self, batch):
            weight, bias = self.optimizers()
            loss = F.mse_loss(self(batch[0]), batch[1])
            for optimizer in (weight, bias):
                optimizer.zero_grad()
            self.manual_backward(loss)
            for optimizer in (weight, bias):
                optimizer.step()
            return loss

        def configure_optimizers(self):
            return [torch.optim.SGD([p], 0.1) for p in self.linear.parameters()]

    module = Manual()
    history = fit(Trainer(module, compile=False))
    assert [row["loss"] for row in history] == [row["loss"] for row in fit(plain())]


def test_it_is_saved_and_resumed_like_any_net(tmp_path) -> None:
    module = Regression()
    assert set(module.state_dict()) == {"linear.weight", "linear.bias"}
    fit(Trainer(module, compile=False), 2, resume=tmp_path)
    resumed = fit(Trainer(Regression(), compile=False), 4, resume=tmp_path)
    assert [row["loss"] for row in resumed] == [row["loss"] for row in fit(plain(), 4)]
    stopped = fit(Trainer(Regression(), callbacks=[EarlyStopping("valid_loss", 1, min_delta=9)]), 9)
    assert len(stopped) < 9


def test_what_is_lacking_is_named() -> None:
    class Empty(TrainableModule):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty has no configure_optimizers\(\)"):
        Trainer(Empty())
    with pytest.raises(RuntimeError, match="not attached"):
        _ = Empty().trainer
