"""Callbacks of control: stopping early, schedules, clipping, averages, freezing, NaN."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.optim import lr_scheduler as schedulers
from flambeau.optim.swa_utils import SWALR
from flambeau.train import (
    EMA, SWA, EarlyStopping, Freeze, GradientClipping, Loop, LRFinder, Schedule, TerminateOnNaN,
    Trainer, Unfreeze, Warmup, epoch, step,
)

torch.manual_seed(0)
X = torch.randn(24, 3)
Y = X.sum(1, keepdim=True)


def make(lr=0.1, callbacks=(), **options):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    options.setdefault("compile", False)
    return Trainer(net, optimizer, "mse", callbacks=callbacks, **options)


def fit(trainer, epochs=3, **options):
    return trainer.fit((X, Y), (X, Y), epochs=epochs, batch_size=8, shuffle=False, **options)


def rate(trainer):
    return trainer.optimizer.param_groups[0]["lr"]


def watched(name, numbers, callback, net=None):
    """A run whose number `name` is what is given, epoch by epoch."""
    loop = Loop(lambda batch: None, callbacks=[callback])
    left = iter(numbers)
    loop.attach(epoch.end, lambda run: run.log(**{name: next(left)}))
    return len(loop.run([1], epochs=len(numbers)))


# ---- early stopping ----


@pytest.mark.parametrize(
    ("numbers", "options", "epochs"),
    [
        ([3, 2, 2.5, 2.5, 1], {"patience": 2}, 4),
        ([3, 2, 2.5, 1, 2, 2, 0], {"patience": 2}, 6),
        ([3, 2.95, 2.9, 2.0], {"patience": 2, "min_delta": 0.2}, 3),
        ([3, math.nan, math.nan, 1], {"patience": 2}, 3),
        ([1, 2, 3, 2, 2], {"patience": 2, "mode": "max"}, 5),
        ([1, 2, 3], {"patience": 1}, 2),
    ],
)
def test_early_stopping(numbers, options, epochs):
    assert watched("valid_loss", numbers, EarlyStopping("valid_loss", **options)) == epochs


def test_which_way_is_better():
    assert watched("accuracy", [1, 2, 3], EarlyStopping("accuracy", 1)) == 3
    assert watched("reward", [1, 2, 3], EarlyStopping("reward", 1, mode="max")) == 3
    with pytest.raises(ValueError, match="'reward' is better is not known"):
        watched("reward", [1, 2, 3], EarlyStopping("reward", 1))
    with pytest.raises(ValueError, match="mode must be"):
        EarlyStopping(mode="higher")

    class Odd(type(make(metrics="mae").metrics["mae"])):
        higher_is_better = True

    trainer = make(metrics={"oddity": Odd()})
    stopping = EarlyStopping("valid_oddity", 1)
    fit(trainer, callbacks=[stopping])
    assert stopping.best_epoch == 1
    assert trainer.state.epoch == 2


@pytest.mark.parametrize("patience", [1, 100])
def test_the_best_weights_come_back(patience, capsys):
    trainer, weights = make(), []
    trainer.attach(epoch.end, lambda run: weights.append(run.net[0].weight.detach().clone()))
    left = iter([3.0, 1.0, 2.0, 5.0])
    trainer.attach(epoch.end, lambda run: run.log(valid_loss=next(left)))
    fit(trainer, epochs=4, callbacks=[EarlyStopping(patience=patience)])
    assert len(weights) == (3 if patience == 1 else 4)
    assert torch.equal(trainer.net[0].weight, weights[1])
    said = capsys.readouterr().err
    assert ("not better than 1 of epoch 2 for 1 epochs" in said) == (patience == 1)


def test_a_number_that_is_never_there_ends_the_first_epoch():
    trainer = make(callbacks=[EarlyStopping("valid_acuracy")], metrics="mae")
    with pytest.raises(KeyError, match=r"no 'valid_acuracy' in the logs of epoch 1.*valid_mae"):
        fit(trainer, epochs=9)
    assert trainer.state.step == 3


def test_two_of_one_name():
    trainer = make(callbacks=[EarlyStopping()])
    with pytest.raises(ValueError, match="two callbacks persist under the name 'EarlyStopping'"):
        trainer.use(EarlyStopping("loss"))
    trainer.use(EarlyStopping("loss", name="other"))


def test_a_second_fit_begins_anew():
    trainer, stopping = make(), EarlyStopping(patience=1, mode="max")  # the loss falls: at once
    for _ in range(2):
        assert len(fit(trainer, epochs=5, callbacks=[stopping])) == 2


# ---- schedules ----


def rates(callbacks, epochs=3, lr=1.0):
    trainer, rates_seen = make(lr), []
    trainer.attach(step.start, lambda run: rates_seen.append(round(rate(run), 6)))
    fit(trainer, epochs, callbacks=callbacks)
    return rates_seen


def test_schedules_by_epoch_and_by_step():
    by_epoch = rates([Schedule(lambda o: schedulers.StepLR(o, 1, 0.5))])
    assert by_epoch == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert rates([Schedule(lambda o: schedulers.StepLR(o, 1, 0.5), "step")], 1) == [1, 0.5, 0.25]
    late = rates([Schedule(lambda o: schedulers.ExponentialLR(o, 0.5), epoch.end(after=1))])
    assert late == [1] * 6 + [0.5] * 3
    cycle = rates([Schedule(
        lambda o, run: schedulers.OneCycleLR(o, 2, run.state.batches * run.state.epochs)
    )])
    assert max(cycle) == pytest.approx(2, rel=0.01)
    assert cycle.index(max(cycle)) == 2
    assert cycle[-1] < 0.001


def test_a_scheduler_as_it_is():
    trainer = make(1.0)
    scheduler = schedulers.CosineAnnealingLR(trainer.optimizer, 4)
    fit(trainer, 4, callbacks=[Schedule(scheduler)])
    assert rate(trainer) == pytest.approx(0)
    assert scheduler.last_epoch == 4


def test_plateau():
    trainer = make(1.0)
    with pytest.raises(ValueError, match="monitor='valid_loss'"):
        Schedule(schedulers.ReduceLROnPlateau(trainer.optimizer))
    schedule = Schedule(
        lambda o: schedulers.ReduceLROnPlateau(o, patience=0, factor=0.5), monitor="level"
    )
    levels = iter([3, 2, 2.5, 2.5])
    trainer.attach(epoch.end, lambda run: run.log(level=next(levels)))
    fit(trainer, 4, callbacks=[schedule])
    assert rate(trainer) == 0.25


def test_bad_schedules():
    with pytest.raises(ValueError, match="when must be 'epoch', 'step' or an event"):
        Schedule(lambda o: o, "batch")
    with pytest.raises(TypeError, match="takes a scheduler"):
        Schedule(3)
    with pytest.raises(TypeError, match="returned SGD, no scheduler"):
        fit(make(), callbacks=[Schedule(lambda o: o)])


def test_warmup_alone_and_under_a_schedule():
    assert rates([Warmup(4, start=0.2)]) == [0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1, 1]
    assert rates([Warmup(epochs=1, start=0.01, shape="exponential")], 2) == [
        0.01, 0.046416, 0.215443, 1, 1, 1,
    ]
    for callbacks in (
        [Schedule(lambda o: schedulers.ExponentialLR(o, 0.5)), Warmup(6, start=0.4)],
        [Warmup(6, start=0.4), Schedule(lambda o: schedulers.ExponentialLR(o, 0.5))],
    ):
        assert rates(callbacks) == [0.4, 0.5, 0.6, 0.35, 0.4, 0.45, 0.25, 0.25, 0.25]
    for options in ({}, {"steps": 2, "epochs": 1}, {"steps": 2, "start": 2}):
        with pytest.raises(ValueError, match="Warmup"):
            Warmup(**options)


def test_lr_finder_puts_everything_back():
    trainer, called = make(0.02), []
    trainer.attach(step.end | epoch.start, lambda: called.append(1))
    fit(trainer, 1)
    before, random, calls = trainer.state_dict(), torch.get_rng_state(), len(called)
    before = {name: value.clone() for name, value in before["net"].items()}
    finding = LRFinder(low=1e-4, high=100, steps=60).run(trainer, (X, Y), batch_size=8)
    assert len(called) == calls
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in trainer.net.state_dict().items())
    assert (rate(trainer), trainer.state.step) == (0.02, 3)
    assert finding.rates[0] == pytest.approx(1e-4)
    assert len(finding.rates) < 60  # it diverged
    assert finding.suggestion is None or 1e-3 < finding.suggestion < 10
    assert "learning rate" in finding.plot().svg()
    with pytest.raises(ValueError, match="expected 0 < low < high"):
        LRFinder(low=1, high=0.1)


# ---- gradients and weights ----


@pytest.mark.parametrize("own", [False, True])
def test_clipping(own):
    trainer, norms = make(), []
    if own:

        @trainer.step
        def body(run, batch):
            run.optimizer.zero_grad()
            loss = ((run.net(batch[0]) - batch[1]) ** 2).mean()
            loss.backward()
            run.optimizer.step()
            return loss

    def norm():
        squares = [float((p.grad**2).sum()) for p in trainer.net.parameters()]
        norms.append(sum(squares) ** 0.5)

    trainer.attach(step.end, norm)
    fit(trainer, 1, callbacks=[GradientClipping(0.01)])
    assert norms == pytest.approx([0.01] * 3, rel=1e-3)
    fit(trainer, 1, callbacks=[GradientClipping(value=0.001)])
    assert max(float(p.grad.abs().max()) for p in trainer.net.parameters()) <= 0.0010001
    fit(trainer, 1)
    assert norms[-1] > 0.02
    with pytest.raises(ValueError, match="norm, value, or both"):
        GradientClipping()


def test_moving_average():
    trainer, weights = make(), []
    trainer.attach(step.end, lambda run: weights.append(run.net[0].weight.detach().clone()))
    ema = EMA(0.75, start=2)
    rows = fit(trainer, 2, callbacks=[ema])
    expected = weights[1]
    for weight in weights[2:]:
        expected = 0.75 * expected + 0.25 * weight
    assert torch.allclose(ema.net[0].weight, expected)
    assert torch.equal(trainer.net[0].weight, weights[-1])
    error = ((ema.net(X) - Y) ** 2).mean()
    assert rows[-1]["valid_loss"] == pytest.approx(float(error), rel=1e-5)
    assert torch.equal(trainer.predict(X), ema.net(X))
    copy = make().net
    ema.copy_to(copy)
    assert torch.equal(copy(X), ema.net(X))
    plain = EMA(0.75, evaluate=False)
    fit(trainer, 1, callbacks=[plain])
    assert torch.equal(trainer.predict(X), trainer.net(X))
    with pytest.raises(RuntimeError, match="nothing has been averaged"):
        EMA().net  # noqa: B018


def test_stopping_early_restores_the_averages_too():
    trainer, ema, seen = make(), EMA(0.5), []
    trainer.attach(epoch.end, lambda run: seen.append(ema.net[0].weight.clone()))
    left = iter([3.0, 1.0, 2.0])
    trainer.attach(epoch.end, lambda run: run.log(valid_loss=next(left)))
    fit(trainer, 3, callbacks=[EarlyStopping(), ema])
    assert torch.equal(ema.net[0].weight, seen[1])


def test_equal_averages_with_batch_normalisation():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), "mse", compile=False)
    weights, swa = [], SWA(0.5)
    trainer.attach(epoch.end, lambda run: weights.append(run.net[0].weight.detach().clone()))
    swalr = Schedule(lambda o: SWALR(o, 0.05, anneal_epochs=1), epoch.end(after=1))
    trainer.fit((X, Y), epochs=4, batch_size=24, callbacks=[swa, swalr])
    assert torch.allclose(swa.net[0].weight, (weights[2] + weights[3]) / 2)
    assert rate(trainer) == pytest.approx(0.05)
    inner = swa.net[0](X)
    assert torch.allclose(swa.net[1].running_mean, inner.mean(0), atol=1e-6)
    assert not swa.net.training


def test_freeze():
    trainer, trained = make(), []

    @trainer.on(epoch.start, band="metrics")
    def note(run):
        trained.append([p.requires_grad for p in run.net.parameters()])

    first = trainer.net[0].weight.detach().clone()
    trainer.net[2].bias.requires_grad_(False)
    trainer.attach(epoch.end(once=1), lambda: trained.append(bool((trainer.net[0].weight == first)
                                                                  .all())))
    fit(trainer, callbacks=[Freeze("0", until=2), Freeze("2.w*", start=3)])
    assert trained == [
        [False, False, True, False], True, [True, True, True, False], [True, True, False, False]
    ]
    assert [p.requires_grad for p in trainer.net.parameters()] == [True, True, True, False]
    with pytest.raises(ValueError, match=r"no parameter is called 'o'.*There are: 0, 1, 2, 0\.w"):
        fit(trainer, callbacks=[Freeze("o")])
    with pytest.raises(ValueError, match="expected 1 <= start < until"):
        Freeze("0", start=3, until=3)
    with pytest.raises(TypeError, match="takes names"):
        Freeze(0)


def test_unfreeze():
    trainer, trained = make(), []

    @trainer.on(epoch.start, band="metrics")
    def note(run):
        trained.append([p.requires_grad for p in run.net.parameters()])

    fit(trainer, callbacks=[Unfreeze({1: "2", 3: ["0.bias"]})])
    assert trained == [[False, False, True, True]] * 2 + [[False, True, True, True]]
    assert all(p.requires_grad for p in trainer.net.parameters())


def test_nan_ends_the_run(tmp_path):
    trainer = make()

    @trainer.on(step.end(once=4))
    def spoil(run):
        with torch.no_grad():
            run.net[2].weight[0, 1:3] = float("nan")

    with pytest.warns(UserWarning, match="epoch 2, step 5: the loss is nan") as caught:
        fit(trainer, resume=tmp_path, callbacks=[TerminateOnNaN()])
    assert "first parameter with such numbers is '0.weight' (12 of 12 numbers)" in str(
        caught[0].message
    )
    assert trainer.state.step == 5
    assert trainer.state.diverged
    assert torch.load(tmp_path / "last.pt")["run"]["step"] == 3


def test_nan_in_the_data_and_an_error():
    x = X.clone()
    x[9] = float("inf")
    trainer = make()
    with pytest.raises(FloatingPointError, match=r"step 2: the loss is nan; the batch itself has"):
        trainer.fit((x, Y), batch_size=8, shuffle=False, callbacks=[TerminateOnNaN(raises=True)])
    other = make()

    @other.on(epoch.end, band="metrics")
    def spoil(run):
        with torch.no_grad():
            run.net[0].bias[0] = float("inf")

    with pytest.warns(UserWarning, match=r"loss is finite, but the net is not: '0.bias' \(1 of 4"):
        fit(other, callbacks=[TerminateOnNaN()])
    assert other.state.epoch == 1
