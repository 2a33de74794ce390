"""Optimizers and schedulers beside PyTorch's, for 20 steps on the same numbers."""

import warnings

import numpy as np
import pytest

import flambeau

pytestmark = pytest.mark.parity

STEPS = 20
COMMON = [{}, {"maximize": True}, {"lr": 0.07}]
OPTIONS = {
    "SGD": [
        {"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"fused": True},
    ],
    "Adam": [
        {"weight_decay": 0.3}, {"amsgrad": True, "lr": 0.1}, {"fused": True}, {"foreach": True},
        {"weight_decay": 0.3, "decoupled_weight_decay": True}, {"betas": (0.5, 0.8), "eps": 0.1},
    ],
    "AdamW": [{"weight_decay": 0.5}, {"amsgrad": True, "lr": 0.1}],
    "RMSprop": [
        {"momentum": 0.9, "lr": 0.02}, {"centered": True}, {"weight_decay": 0.3},
        {"momentum": 0.5, "centered": True, "alpha": 0.9},
    ],
    "Adagrad": [
        {"lr_decay": 0.2}, {"weight_decay": 0.3}, {"initial_accumulator_value": 0.3},
    ],
    "Adadelta": [{"rho": 0.7}, {"weight_decay": 0.3}],
    "Adamax": [{"betas": (0.7, 0.9)}, {"weight_decay": 0.3}],
    "NAdam": [
        {"momentum_decay": 0.02}, {"weight_decay": 0.3},
        {"weight_decay": 0.3, "decoupled_weight_decay": True},
    ],
    "RAdam": [{"weight_decay": 0.3}, {"weight_decay": 0.3, "decoupled_weight_decay": True}],
    "ASGD": [{"t0": 5, "lambd": 0.1}, {"weight_decay": 0.3}],
    "Rprop": [{"etas": (0.3, 1.5), "step_sizes": (0.01, 0.1)}],
    "Adafactor": [{"weight_decay": 0.3}, {"d": 2.0, "eps": (1e-6, 0.1)}],
}
CASES = [(name, o) for name, more in OPTIONS.items() for o in (*COMMON, *more)]


def train(lib, optimizer_of, dtype):
    rng = np.random.RandomState(0)
    shapes = [(5, 4), (4,), (2, 3, 4), ()]
    leaves = [
        lib.from_numpy(np.asarray(rng.standard_normal(s), dtype)).requires_grad_() for s in shapes
    ]
    optimizer = optimizer_of(leaves)
    for step in range(STEPS):
        for index, p in enumerate(leaves):
            g = lib.from_numpy(np.asarray(rng.standard_normal(p.shape), dtype))
            p.grad = None if (step + index) % 7 == 3 else g  # sits out now and then
        optimizer.step()
    return optimizer, leaves


def close(actual, want, dtype):
    rtol, atol = (1e-5, 1e-6) if dtype is np.float32 else (1e-9, 1e-11)
    np.testing.assert_allclose(actual.detach().numpy(), want.detach().numpy(), rtol=rtol, atol=atol)
    assert str(actual.dtype) == str(want.dtype)


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_optimizer(name, options, dtype):
    torch = pytest.importorskip("torch")
    ends = [
        train(lib, lambda leaves, lib=lib: getattr(lib.optim, name)(leaves, **options), dtype)
        for lib in (flambeau, torch)
    ]
    (ours, actual), (theirs, want) = ends
    for a, b in zip(actual, want, strict=True):
        close(a, b, dtype)
    for a, b in zip(actual, want, strict=True):
        assert list(ours.state[a]) == list(theirs.state[b])
        for key, value in ours.state[a].items():
            close(value, theirs.state[b][key], dtype)
    assert repr(ours) == repr(theirs)
    assert ours.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]


@pytest.mark.parametrize("name", [n for n in OPTIONS if n != "Adafactor"])
def test_complex_parameters(name):
    torch = pytest.importorskip("torch")
    _, actual = train(flambeau, getattr(flambeau.optim, name), np.complex128)
    _, want = train(torch, getattr(torch.optim, name), np.complex128)
    for a, b in zip(actual, want, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [
    {}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.3},
])
def test_muon(options):
    torch = pytest.importorskip("torch")
    ends = []
    for lib in (flambeau, torch):
        rng = np.random.RandomState(0)
        value = rng.standard_normal((6, 4)).astype(np.float32)
        w = lib.from_numpy(value).requires_grad_()
        optimizer = lib.optim.Muon([w], lr=0.05, **options)
        for _ in range(STEPS):
            w.grad = lib.from_numpy(rng.standard_normal(w.shape).astype(np.float32))
            optimizer.step()
        ends.append(w.detach().numpy())
    np.testing.assert_allclose(*ends, rtol=0.02, atol=0.02)  # both iterate in bfloat16


@pytest.mark.parametrize("options", [
    {}, {"line_search_fn": "strong_wolfe"}, {"history_size": 2, "lr": 0.5},
    {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 5},
])
def test_lbfgs(options):
    torch = pytest.importorskip("torch")
    ends = []
    for lib in (flambeau, torch):
        rng = np.random.RandomState(0)
        a = lib.from_numpy(rng.standard_normal((8, 5)))
        b = lib.from_numpy(rng.standard_normal(8))
        x = lib.from_numpy(rng.standard_normal(5)).requires_grad_()
        optimizer = lib.optim.LBFGS([x], **options)

        def closure(a=a, b=b, x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((a @ x).tanh() - b).pow(2).sum()
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(3)]
        state = optimizer.state_dict()["state"][0]
        ends.append((losses, x.detach().numpy(), state))
    (actual, x, ours), (want, y, theirs) = ends
    np.testing.assert_allclose(actual, want, rtol=1e-6)
    np.testing.assert_allclose(x, y, rtol=1e-4)
    assert set(ours) == set(theirs)
    assert (ours["func_evals"], ours["n_iter"]) == (theirs["func_evals"], theirs["n_iter"])


SCHEDULERS = {
    "lambda": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 1 - 0.1 / (1 + e)),
    "step": lambda s, o: s.StepLR(o, 3, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], 0.3),
    "constant": lambda s, o: s.ConstantLR(o),
    "linear": lambda s, o: s.LinearLR(o, 0.25, 0.9, 6),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o, 10, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 7, 0.001),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, [0.1, 0.3], 3, 5, mode="triangular2"),
    "exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.97),
    "one cycle": lambda s, o: s.OneCycleLR(o, [0.1, 0.2], 30),
    "three phases": lambda s, o: s.OneCycleLR(o, 0.1, 25, three_phase=True),
    "swa": lambda s, o: s.SWALR(o, [0.03, 0.01], anneal_epochs=7),
    "sequence": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 8), s.ConstantLR(o)], [4, 13]
    ),
    "chain": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.CosineAnnealingLR(o, 9)]),
    "chain of sequences": lambda s, o: s.ChainedScheduler([
        s.SequentialLR(o, [s.ExponentialLR(o, 0.9), s.StepLR(o, 2, 0.5)], [6]),
        s.LinearLR(o, 0.5),
    ]),
}


class Schedulers:
    """One namespace for lr_scheduler and SWALR."""

    def __init__(self, lib):
        self.lib = lib

    def __getattr__(self, name):
        optim = self.lib.optim
        return optim.swa_utils.SWALR if name == "SWALR" else getattr(optim.lr_scheduler, name)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_scheduler(name):
    torch = pytest.importorskip("torch")
    ends = []
    for lib in (flambeau, torch):
        groups = [
            {"params": [lib.ones(1, requires_grad=True)]},
            {"params": [lib.ones(1, requires_grad=True)], "lr": 0.02},
        ]
        optimizer = lib.optim.SGD(groups, lr=0.1, momentum=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler = SCHEDULERS[name](Schedulers(lib), optimizer)
        values = []
        for _ in range(STEPS):
            optimizer.step()
            scheduler.step()
            values.append([(g["lr"], g["momentum"]) for g in optimizer.param_groups])
            values.append(scheduler.get_last_lr())
        state = scheduler.state_dict()
        ends.append((values, {k for k in state if k != "anneal_func"}, optimizer))
    (actual, keys, ours), (want, their_keys, theirs) = ends
    assert actual == want  # to the last bit
    assert keys == their_keys
    assert ours.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]


def test_state_dicts_cross_over():
    torch = pytest.importorskip("torch")
    theirs, there = train(torch, torch.optim.Adam, np.float32)
    packed = theirs.state_dict()
    packed["state"] = {
        k: {name: flambeau.from_numpy(v.numpy().copy()) for name, v in s.items()}
        for k, s in packed["state"].items()
    }
    here = [flambeau.from_numpy(p.detach().numpy().copy()).requires_grad_() for p in there]
    ours = flambeau.optim.Adam(here)
    ours.load_state_dict(packed)
    for p, q in zip(here, there, strict=True):
        p.grad, q.grad = flambeau.ones_like(p), torch.ones_like(q)
    ours.step()
    theirs.step()
    for p, q in zip(here, there, strict=True):
        close(p, q, np.float32)
