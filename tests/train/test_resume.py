"""Exact resume: a training that goes on from a saved state is that which was not interrupted."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.optim.lr_scheduler import StepLR
from flambeau.train import (
    CONTROL, IO, Trainer, backward, callback, epoch, optim, run, step, valid,
)
from flambeau.train import train as train_scope


@pytest.fixture(autouse=True)
def _same_bits():
    """No kernels that are ready sooner in one run than in another."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


torch.manual_seed(0)
X, Y = torch.randn(44, 3), torch.randint(0, 2, (44,))


@callback(band=CONTROL, name="smallest")
def smallest(run):
    record = run.persist(loss=math.inf, changes=0)
    while True:
        yield step.end
        if float(run.state.loss) < record.loss:
            record.loss, record.changes = float(run.state.loss), record.changes + 1


def make(seed=0, **options):
    """Dropout, Adam, a scheduler, metrics, a callback that remembers."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.4), nn.BatchNorm1d(8), nn.Linear(8, 2))
    trainer = Trainer(
        net, torch.optim.Adam(net.parameters(), lr=0.05), "cross_entropy", metrics=["accuracy"],
        callbacks=[smallest], compile=False, **options,
    )
    scheduler = StepLR(trainer.optimizer, step_size=1, gamma=0.7)
    trainer.track(scheduler=scheduler)
    trainer.attach(epoch.end, lambda run: scheduler.step())
    trainer.losses = []
    trainer.attach(step.end, lambda run: run.losses.append(run.state.loss.item()))
    return trainer


def fit(trainer):
    return trainer.fit((X, Y), (X[:20], Y[:20]), epochs=4, batch_size=8)


def saving(event, count, tmp_path, **options):
    """A run that saves itself at an event and stops as a killed process does."""
    trainer = make(**options)

    @trainer.on(event(once=count), band=IO)
    def save(run):
        torch.save(run.state_dict(), tmp_path / "run.pt")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(trainer)
    return torch.load(tmp_path / "run.pt", weights_only=False)


@pytest.mark.parametrize(
    ("event", "count"),
    [(step.end, 1), (step.end, 7), (step.end, 12), (step.end, 17), (epoch.end, 2),
     (train_scope.end, 1), (valid.step.end, 1), (valid.end, 3), (epoch.start, 2)],
    ids=str,
)
@pytest.mark.parametrize("accumulate", [1, 4])
def test_bit_for_bit(event, count, accumulate, tmp_path):
    whole = make(accumulate=accumulate)
    rows = fit(whole)
    saved = saving(event, count, tmp_path, accumulate=accumulate)

    resumed = make(seed=77, accumulate=accumulate)
    resumed.load_state_dict(saved)
    torch.rand(13)  # whatever happened in between
    assert fit(resumed) == rows
    assert resumed.losses
    assert resumed.losses == whole.losses[len(whole.losses) - len(resumed.losses) :]
    assert len(resumed.losses) == len(whole.losses) - saved["run"]["step"]
    for a, b in zip(whole.net.parameters(), resumed.net.parameters(), strict=True):
        assert torch.equal(a, b)
    ours, theirs = resumed.persistence.values, whole.persistence.values
    assert ours == theirs
    assert resumed.optimizer.param_groups[0]["lr"] == whole.optimizer.param_groups[0]["lr"]


def test_handlers_that_draw_do_not_matter(tmp_path):
    whole = make()
    rows = fit(whole)
    saved = saving(step.end, 8, tmp_path)
    resumed = make(seed=5)
    resumed.load_state_dict(saved)
    resumed.attach(epoch.start(once=2) | train_scope.start(once=2), lambda run: torch.rand(3))
    assert fit(resumed) == rows


def test_a_callback_may_load_when_the_run_starts(tmp_path):
    whole = make()
    rows = fit(whole)
    saved = saving(step.end, 8, tmp_path)
    resumed = make(seed=5)
    resumed.attach(run.start, lambda run: run.load_state_dict(saved), IO)
    assert fit(resumed) == rows
    assert resumed.losses == whole.losses[8:]


def test_parts_that_do_not_match(tmp_path):
    saved = saving(step.end, 3, tmp_path)
    other = make()
    other.track(more=other.tracked["scheduler"])
    with pytest.raises(KeyError, match=r"tracked \['scheduler'\], this run has"):
        other.load_state_dict(saved)
    with pytest.raises(TypeError, match="has no state_dict"):
        other.track(x=3)
    resumed = make()
    resumed.load_state_dict(saved)
    with pytest.raises(ValueError, match="an epoch of 6 batches, but the data has 11"):
        resumed.fit((X, Y), epochs=4, batch_size=4)


def test_the_eager_parts_resume_as_well(tmp_path):
    """Gradients that wait for the rest of their batches are part of the state."""
    saved = saving(step.end, 3, tmp_path, accumulate=4)
    assert saved["accumulated"]["batches"] == 3
    resumed, updates = make(accumulate=4), []
    resumed.load_state_dict(saved)
    resumed.attach(optim.end | backward.end(once=4), lambda n: updates.append(n))
    fit(resumed)
    assert updates[:2] == [4, 4]


class Scaled(nn.Module):
    """A loss that learns, and that counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, y_pred, y):
        self.calls += 1
        return nn.functional.cross_entropy(y_pred * self.scale, y)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_loss_with_parameters(accumulate, tmp_path):
    def learning():
        torch.manual_seed(0)
        net, loss = nn.Linear(3, 2), Scaled()
        optimizer = torch.optim.Adam([*net.parameters(), *loss.parameters()], lr=0.05)
        trainer = Trainer(net, optimizer, loss, compile=False, accumulate=accumulate)
        trainer.losses = []
        trainer.attach(step.end, lambda run: run.losses.append(run.state.loss.item()))
        return trainer

    whole = learning()
    fit(whole)
    killed = learning()
    killed.attach(step.end(once=7), lambda run: torch.save(run.state_dict(), tmp_path / "run.pt"))
    fit(killed)
    again = learning()
    again.load_state_dict(torch.load(tmp_path / "run.pt"))
    fit(again)
    assert again.losses == whole.losses[7:]
    assert again.history == whole.history
    assert torch.equal(again.loss.scale, whole.loss.scale)
    assert again.loss.calls == whole.loss.calls
