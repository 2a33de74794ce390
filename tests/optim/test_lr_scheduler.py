"""Learning-rate schedulers against their closed forms, and the order and saving of steps."""

import copy
import math
import warnings

import pytest

import flambeau as torch
from flambeau.optim import lr_scheduler as schedulers

EPOCHS = 20
RATE = 0.4


def make(lr=RATE, groups=1, **options):
    params = [{"params": [torch.ones(1, requires_grad=True)]} for _ in range(groups)]
    return torch.optim.SGD(params, lr=lr, momentum=0.9, **options)


def path(optimizer, scheduler, epochs=EPOCHS, key="lr"):
    """The values of the first group, from before the first step on."""
    values = [float(optimizer.param_groups[0][key])]
    for _ in range(epochs):
        optimizer.step()
        scheduler.step()
        values.append(float(optimizer.param_groups[0][key]))
    return values


def triangle(x):
    return 1 - abs(1 - x % 2)


CLOSED = {
    "LambdaLR": (lambda o: schedulers.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: 1 / (1 + e)),
    "MultiplicativeLR": (
        lambda o: schedulers.MultiplicativeLR(o, lambda e: 0.9), lambda e: 0.9**e),
    "StepLR": (lambda o: schedulers.StepLR(o, 3, gamma=0.5), lambda e: 0.5 ** (e // 3)),
    "MultiStepLR": (
        lambda o: schedulers.MultiStepLR(o, [2, 5, 5, 9], gamma=0.3),
        lambda e: 0.3 ** sum(e >= m for m in (2, 5, 5, 9))),
    "ConstantLR": (
        lambda o: schedulers.ConstantLR(o, factor=0.25, total_iters=4),
        lambda e: 0.25 if e < 4 else 1),
    "LinearLR": (
        lambda o: schedulers.LinearLR(o, start_factor=0.2, end_factor=0.8, total_iters=6),
        lambda e: 0.2 + 0.6 * min(e, 6) / 6),
    "ExponentialLR": (lambda o: schedulers.ExponentialLR(o, 0.9), lambda e: 0.9**e),
    "PolynomialLR": (
        lambda o: schedulers.PolynomialLR(o, total_iters=10, power=2.0),
        lambda e: (1 - min(e, 10) / 10) ** 2),
    "CosineAnnealingLR": (
        lambda o: schedulers.CosineAnnealingLR(o, T_max=7, eta_min=0.1 * RATE),
        lambda e: 0.1 + 0.9 * (1 + math.cos(math.pi * e / 7)) / 2),
    "CosineAnnealingWarmRestarts": (
        lambda o: schedulers.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2),
        lambda e: (1 + math.cos(math.pi * (
            e / 3 if e < 3 else (e - 3) / 6 if e < 9 else (e - 9) / 12))) / 2),
    "CyclicLR": (
        lambda o: schedulers.CyclicLR(o, 0.25 * RATE, RATE, step_size_up=4),
        lambda e: 0.25 + 0.75 * triangle(e / 4)),
    "CyclicLR triangular2": (
        lambda o: schedulers.CyclicLR(o, 0.25 * RATE, RATE, step_size_up=4, mode="triangular2"),
        lambda e: 0.25 + 0.75 * triangle(e / 4) / 2 ** (e // 8)),
    "CyclicLR exp_range": (
        lambda o: schedulers.CyclicLR(
            o, 0.25 * RATE, RATE, step_size_up=4, mode="exp_range", gamma=0.9),
        lambda e: 0.25 + 0.75 * triangle(e / 4) * 0.9**e),
    "CyclicLR scale_fn": (
        lambda o: schedulers.CyclicLR(
            o, 0.25 * RATE, RATE, step_size_up=4, scale_fn=lambda cycle: 1 / cycle),
        lambda e: 0.25 + 0.75 * triangle(e / 4) / (1 + e // 8)),
    "OneCycleLR": (
        lambda o: schedulers.OneCycleLR(
            o, max_lr=RATE, total_steps=20, pct_start=0.5, anneal_strategy="linear",
            div_factor=10, final_div_factor=10),
        lambda e: 0.1 + 0.9 * e / 9 if e <= 9 else 1 - 0.99 * (e - 9) / 10),
    "OneCycleLR three_phase": (
        lambda o: schedulers.OneCycleLR(
            o, max_lr=RATE, epochs=5, steps_per_epoch=4, pct_start=0.25, three_phase=True,
            anneal_strategy="linear", div_factor=10, final_div_factor=10),
        lambda e: 0.1 + 0.9 * e / 4 if e <= 4 else 1 - 0.9 * (e - 4) / 4 if e <= 8
        else 0.1 - 0.09 * (e - 8) / 11),
    "SequentialLR": (
        lambda o: schedulers.SequentialLR(
            o, [schedulers.ConstantLR(o, 0.1, 100), schedulers.ExponentialLR(o, 0.9)], [5]),
        lambda e: 0.1 if e < 5 else 0.9 ** (e - 5)),
    "ChainedScheduler": (
        lambda o: schedulers.ChainedScheduler(
            [schedulers.ConstantLR(o, 0.5, 3), schedulers.ExponentialLR(o, 0.9)]),
        lambda e: 0.9**e * (0.5 if e < 3 else 1)),
}


def end_of(name):
    return 19 if name.startswith("OneCycle") else EPOCHS


@pytest.mark.parametrize("name", CLOSED)
def test_closed_form(name):
    build, closed = CLOSED[name]
    optimizer = make()
    scheduler = build(optimizer)
    actual = path(optimizer, scheduler, end_of(name))
    assert actual == pytest.approx([RATE * closed(e) for e in range(end_of(name) + 1)], rel=1e-9)
    assert scheduler.get_last_lr() == [actual[-1]]


@pytest.mark.parametrize("name", CLOSED)
def test_tensor_rates_change_in_place(name):
    build, closed = CLOSED[name]
    rate = torch.tensor(RATE, dtype=torch.float64)
    optimizer = make(rate)
    scheduler = build(optimizer)
    actual = path(optimizer, scheduler, 8)
    assert optimizer.param_groups[0]["lr"] is rate
    assert actual == pytest.approx([RATE * closed(e) for e in range(9)], rel=1e-6)


@pytest.mark.parametrize("name", CLOSED)
def test_state_dict_goes_on_where_it_stopped(name):
    build, _ = CLOSED[name]
    optimizer = make()
    scheduler = build(optimizer)
    path(optimizer, scheduler, 6)
    state = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    assert "optimizer" not in state[1]
    rest = path(optimizer, scheduler, 6)
    other = make(lr=7.0)
    resumed = build(other)
    resumed.load_state_dict(state[1])
    other.load_state_dict(state[0])
    assert path(other, resumed, 6) == rest


def step_to(scheduler, epoch):
    with pytest.warns(UserWarning, match="The epoch parameter"):
        scheduler.step(epoch)


@pytest.mark.parametrize("name", [
    "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR",
    "CosineAnnealingLR", "LambdaLR",
])
def test_step_to_an_epoch(name):
    build, closed = CLOSED[name]
    optimizer = make()
    scheduler = build(optimizer)
    optimizer.step()
    for epoch in (8, 3, 12):
        step_to(scheduler, epoch)
        assert scheduler.get_last_lr()[0] == pytest.approx(RATE * closed(epoch))


def test_warm_restarts_at_fractions_of_epochs():
    optimizer = make()
    scheduler = schedulers.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2, eta_min=0.1)
    for epoch, done in ((0.5, 0.25), (2.0, 0), (3.0, 0.25), (6.0, 0), (8.0, 0.25)):
        scheduler.step(epoch)
        want = 0.1 + (RATE - 0.1) * (1 + math.cos(math.pi * done)) / 2
        assert scheduler.get_last_lr() == pytest.approx([want])
    with pytest.raises(ValueError, match="Expected non-negative epoch, but got -1"):
        scheduler.step(-1)


def test_momentum_moves_against_the_rate():
    optimizer = make()
    scheduler = schedulers.CyclicLR(
        optimizer, 0.1, 0.4, step_size_up=4, base_momentum=0.5, max_momentum=0.9
    )
    actual = path(optimizer, scheduler, 8, "momentum")
    assert actual == pytest.approx([0.9 - 0.4 * triangle(e / 4) for e in range(9)])
    adam = torch.optim.Adam([torch.ones(1, requires_grad=True)])
    scheduler = schedulers.OneCycleLR(
        adam, 0.1, total_steps=10, anneal_strategy="linear", pct_start=0.4
    )
    betas = []
    for _ in range(9):
        betas.append(adam.param_groups[0]["betas"])
        adam.step()
        scheduler.step()
    assert [b[0] for b in betas[:4]] == pytest.approx([0.95, 0.95 - 0.1 / 3, 0.95 - 0.2 / 3, 0.85])
    assert all(b[1] == 0.999 for b in betas)
    plain = torch.optim.Adagrad([torch.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="optimizer must support momentum or beta1"):
        schedulers.CyclicLR(plain, 0.1, 0.4)
    with pytest.raises(ValueError, match="optimizer must support momentum or beta1"):
        schedulers.OneCycleLR(plain, 0.1, total_steps=5)


def test_one_cycle_ends():
    optimizer = make()
    scheduler = schedulers.OneCycleLR(optimizer, 0.1, total_steps=3)
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        path(optimizer, scheduler, 4)


# -------------------------------------------------------------------- plateau


def plateau_path(metrics, **options):
    optimizer = make(1.0)
    scheduler = schedulers.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for metric in metrics:
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    assert scheduler.get_last_lr() == [rates[-1]]
    return rates


def test_plateau():
    assert plateau_path([5, 5, 5, 5, 5, 5], patience=1, factor=0.5) == [1, 1, 0.5, 0.5, 0.25, 0.25]
    assert plateau_path([5, 4, 3, 2, 1], patience=0) == [1] * 5
    rates = plateau_path([1] * 8, patience=0, factor=0.5, cooldown=2)
    assert rates == [1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    assert plateau_path([1, 1.04, 1.2], mode="max", patience=0, threshold=0.1, factor=0.5) == [
        1, 0.5, 0.5]
    rates = plateau_path(
        [1, 0.95, 0.8], patience=0, threshold=0.1, threshold_mode="abs", factor=0.5
    )
    assert rates == [1, 0.5, 0.5]
    assert plateau_path([1] * 5, patience=0, factor=0.1, min_lr=0.05)[-1] == 0.05
    assert plateau_path([float("nan")] * 3, patience=0, factor=0.5) == [0.5, 0.25, 0.125]
    assert plateau_path([torch.tensor(1.0)] * 2, patience=0, factor=0.5) == [1, 0.5]


def test_plateau_errors():
    optimizer = make()
    for options, message in (
        ({"factor": 1.0}, "Factor should be < 1.0"),
        ({"mode": "best"}, "mode best is unknown!"),
        ({"threshold_mode": "none"}, "threshold mode none is unknown!"),
        ({"min_lr": [0.1, 0.1]}, "expected 1 min_lrs, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            schedulers.ReduceLROnPlateau(optimizer, **options)
    scheduler = schedulers.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.1])
    optimizer.add_param_group({"params": [torch.ones(1, requires_grad=True)]})
    scheduler.step(1)
    with pytest.raises(RuntimeError, match="The number of param groups in the `optimizer`"):
        scheduler.step(1)


def test_plateau_state():
    optimizer = make()
    scheduler = schedulers.ReduceLROnPlateau(optimizer, patience=2)
    for metric in (3, 4):
        scheduler.step(metric)
    other = schedulers.ReduceLROnPlateau(make(), mode="max")
    other.load_state_dict(scheduler.state_dict())
    assert (other.best, other.num_bad_epochs, other.mode, other.patience) == (3, 1, "min", 2)


# -------------------------------------------------------------------- arguments


def test_arguments_out_of_range():
    o = make(groups=2)
    s = schedulers
    for build, error, message in (
        (lambda: s.LambdaLR(o, [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda: s.MultiplicativeLR(o, 0.9), TypeError, "lr_lambda should be a function"),
        (lambda: s.ConstantLR(o, 1.5), ValueError, "factor expected to be between 0 and 1"),
        (lambda: s.LinearLR(o, 0.0), ValueError, "greater than 0 and less or equal to 1"),
        (lambda: s.LinearLR(o, 0.5, 2.0), ValueError, "factor expected to be between 0 and 1"),
        (lambda: s.CosineAnnealingWarmRestarts(o, 0), ValueError, "positive integer T_0"),
        (lambda: s.CosineAnnealingWarmRestarts(o, 1, 0.5), ValueError, "integer T_mult >= 1"),
        (lambda: s.CyclicLR(o, [0.1], 1.0), ValueError, "base_lr must have the same length"),
        (lambda: s.CyclicLR(o, 0.1, 1.0, mode="x"), ValueError, "mode is invalid"),
        (lambda: s.OneCycleLR(o, 0.1), ValueError, "You must define either total_steps OR"),
        (lambda: s.OneCycleLR(o, 0.1, 0), ValueError, "positive integer total_steps"),
        (lambda: s.OneCycleLR(o, 0.1, 9, pct_start=2), ValueError, "between 0 and 1 pct_start"),
        (lambda: s.OneCycleLR(o, 0.1, 9, anneal_strategy="x"), ValueError, "'cos' or 'linear'"),
        (lambda: s.OneCycleLR(o, [0.1], 9), ValueError, "max_lr must have the same length"),
        (lambda: s.SequentialLR(o, [], []), ValueError, "at least one scheduler"),
        (lambda: s.ChainedScheduler([]), ValueError, "at least one scheduler"),
        (lambda: s.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda: s.ReduceLROnPlateau(None), TypeError, "NoneType is not an Optimizer"),
    ):
        with pytest.raises(error, match=message):
            build()


def test_composites_want_schedulers_of_one_optimizer():
    a, b = make(), make()
    x, other = schedulers.StepLR(a, 2), schedulers.StepLR(b, 2)
    with pytest.raises(ValueError, match="all schedulers to belong to the same optimizer"):
        schedulers.SequentialLR(a, [x, other], [3])
    with pytest.raises(ValueError, match="all schedulers to belong to the same optimizer"):
        schedulers.ChainedScheduler([x, other])
    with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau`"):
        schedulers.ChainedScheduler([x, schedulers.ReduceLROnPlateau(a)])
    with pytest.raises(ValueError, match="one more than the number of milestone points"):
        schedulers.SequentialLR(a, [x], [3])
    with pytest.raises(TypeError, match="should have `optimizer` as its attribute"):
        schedulers.SequentialLR(a, [3], [])


def test_resuming_needs_the_initial_rate():
    optimizer = make()
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified in param_groups"):
        schedulers.StepLR(optimizer, 2, last_epoch=3)
    optimizer.param_groups[0]["initial_lr"] = 0.8
    scheduler = schedulers.CosineAnnealingLR(optimizer, T_max=10, last_epoch=4)
    assert scheduler.last_epoch == 5
    assert scheduler.base_lrs == [0.8]


# -------------------------------------------------------------------- order, groups, saving


def test_order_of_steps():
    optimizer = make()
    scheduler = schedulers.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match=r"call of `lr_scheduler.step\(\)` before `optimizer.step"):
        scheduler.step()
    optimizer = make()
    scheduler = schedulers.StepLR(optimizer, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path(optimizer, scheduler, 3)
    optimizer = make()
    scheduler = schedulers.StepLR(optimizer, 2)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"`optimizer.step\(\)` has been overridden"):
        scheduler.step()


def test_get_lr_is_for_step():
    scheduler = schedulers.ExponentialLR(make(), 0.5)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        scheduler.get_lr()
    with pytest.raises(NotImplementedError):
        schedulers.LRScheduler(make())


def test_each_group_has_its_rate():
    optimizer = make(groups=2)
    optimizer.param_groups[1]["lr"] = 1.0
    scheduler = schedulers.LambdaLR(optimizer, [lambda e: 0.5**e, lambda e: 1 + e])
    path(optimizer, scheduler, 2)
    assert scheduler.get_last_lr() == [RATE / 4, 3.0]


class Halving:
    """A callable object, whose attributes are saved."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, epoch):
        return self.factor**epoch


def test_callable_objects_are_saved_by_their_attributes():
    scheduler = schedulers.LambdaLR(make(), Halving(0.5))
    state = scheduler.state_dict()
    assert state["lr_lambdas"] == [{"factor": 0.5}]
    other = schedulers.LambdaLR(make(), Halving(0.1))
    other.load_state_dict(state)
    assert other.lr_lambdas[0].factor == 0.5
    assert state["lr_lambdas"] == [{"factor": 0.5}]
    assert schedulers.LambdaLR(make(), lambda e: 1).state_dict()["lr_lambdas"] == [None]
    cyclic = schedulers.CyclicLR(make(), 0.1, 1.0, scale_fn=Halving(0.5))
    assert cyclic.state_dict()["_scale_fn_custom"] == {"factor": 0.5}


def test_steps_are_still_hooked_and_optimizers_still_copied():
    optimizer = make()
    scheduler = schedulers.StepLR(optimizer, 2)
    calls = []
    optimizer.register_step_post_hook(lambda *args: calls.append(1))
    path(optimizer, scheduler, 2)
    assert calls == [1, 1]
    copy.deepcopy(optimizer).step()
