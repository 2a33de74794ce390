"""Optimizers against formulas written out in NumPy, compiled and not, straight and resumed."""

import copy
import pickle
import sys

import numpy as np
import pytest

import flambeau as torch

from .problem import STEPS, gradients, leaf, parameters, run

class Adam:
    def __init__(
        self, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False,
        decoupled=False,
    ):
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, weight_decay
        self.amsgrad, self.decoupled = amsgrad, decoupled
        self.m = self.v = self.largest = 0.0
        self.t = 0

    def __call__(self, p, g):
        b1, b2 = self.betas
        self.t += 1
        if self.decoupled:
            p = p * (1 - self.lr * self.decay)
        else:
            g = g + self.decay * p
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        self.largest = np.maximum(self.largest, self.v)
        v = self.largest if self.amsgrad else self.v
        m_hat, v_hat = self.m / (1 - b1**self.t), v / (1 - b2**self.t)
        return p - self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


def AdamW(weight_decay=1e-2, **options):
    return Adam(weight_decay=weight_decay, decoupled=True, **options)


class SGD:
    def __init__(self, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.decay, self.nesterov, self.velocity = weight_decay, nesterov, None

    def __call__(self, p, g):
        g = g + self.decay * p
        if self.velocity is None:
            self.velocity = g
        else:
            self.velocity = self.momentum * self.velocity + (1 - self.dampening) * g
        if self.nesterov:
            g = g + self.momentum * self.velocity
        elif self.momentum:
            g = self.velocity
        return p - self.lr * g


class RMSprop:
    def __init__(
        self, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False
    ):
        self.lr, self.alpha, self.eps, self.decay = lr, alpha, eps, weight_decay
        self.momentum, self.centered = momentum, centered
        self.square = self.mean = self.buffer = 0.0

    def __call__(self, p, g):
        g = g + self.decay * p
        self.square = self.alpha * self.square + (1 - self.alpha) * g * g
        self.mean = self.alpha * self.mean + (1 - self.alpha) * g
        spread = self.square - self.mean**2 if self.centered else self.square
        self.buffer = self.momentum * self.buffer + g / (np.sqrt(spread) + self.eps)
        return p - self.lr * self.buffer


class Adagrad:
    def __init__(
        self, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10
    ):
        self.lr, self.lr_decay, self.decay, self.eps = lr, lr_decay, weight_decay, eps
        self.total, self.t = initial_accumulator_value, 0

    def __call__(self, p, g):
        g = g + self.decay * p
        self.total = self.total + g * g
        rate = self.lr / (1 + self.t * self.lr_decay)
        self.t += 1
        return p - rate * g / (np.sqrt(self.total) + self.eps)


class Adadelta:
    def __init__(self, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0):
        self.lr, self.rho, self.eps, self.decay = lr, rho, eps, weight_decay
        self.square = self.change = 0.0

    def __call__(self, p, g):
        g = g + self.decay * p
        self.square = self.rho * self.square + (1 - self.rho) * g * g
        step = np.sqrt(self.change + self.eps) / np.sqrt(self.square + self.eps) * g
        self.change = self.rho * self.change + (1 - self.rho) * step * step
        return p - self.lr * step


class Adamax:
    def __init__(self, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, weight_decay
        self.m = self.largest = 0.0
        self.t = 0

    def __call__(self, p, g):
        g = g + self.decay * p
        self.t += 1
        self.m = self.betas[0] * self.m + (1 - self.betas[0]) * g
        self.largest = np.maximum(self.betas[1] * self.largest, np.abs(g) + self.eps)
        return p - self.lr / (1 - self.betas[0] ** self.t) * self.m / self.largest


class NAdam:
    def __init__(
        self, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
        decoupled_weight_decay=False,
    ):
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, weight_decay
        self.momentum_decay, self.decoupled = momentum_decay, decoupled_weight_decay
        self.m = self.v = 0.0
        self.t, self.product = 0, 1.0

    def mu(self, t):
        return self.betas[0] * (1 - 0.5 * 0.96 ** (t * self.momentum_decay))

    def __call__(self, p, g):
        b1, b2 = self.betas
        self.t += 1
        if self.decoupled:
            p = p * (1 - self.lr * self.decay)
        else:
            g = g + self.decay * p
        self.product *= self.mu(self.t)
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        ahead = self.mu(self.t + 1)
        m_hat = ahead * self.m / (1 - self.product * ahead)
        m_hat = m_hat + (1 - self.mu(self.t)) * g / (1 - self.product)
        return p - self.lr * m_hat / (np.sqrt(self.v / (1 - b2**self.t)) + self.eps)


class RAdam:
    def __init__(
        self, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
        decoupled_weight_decay=False,
    ):
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, weight_decay
        self.decoupled = decoupled_weight_decay
        self.m = self.v = 0.0
        self.t = 0

    def __call__(self, p, g):
        b1, b2 = self.betas
        self.t += 1
        if self.decoupled:
            p = p * (1 - self.lr * self.decay)
        else:
            g = g + self.decay * p
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        m_hat = self.m / (1 - b1**self.t)
        limit = 2 / (1 - b2) - 1
        rho = limit - 2 * self.t * b2**self.t / (1 - b2**self.t)
        if rho <= 5:
            return p - self.lr * m_hat
        r = np.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
        adapted = np.sqrt(1 - b2**self.t) / (np.sqrt(self.v) + self.eps)
        return p - self.lr * m_hat * r * adapted


class ASGD:
    def __init__(self, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0):
        self.lr, self.lambd, self.alpha, self.t0 = lr, lambd, alpha, t0
        self.decay, self.t = weight_decay, 0

    def __call__(self, p, g):
        g = g + self.decay * p
        eta = self.lr / (1 + self.lambd * self.lr * self.t) ** self.alpha
        self.t += 1
        return p * (1 - self.lambd * eta) - eta * g


class Rprop:
    def __init__(self, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
        self.size, self.etas, self.limits, self.before = lr, etas, step_sizes, 0.0

    def __call__(self, p, g):
        agree = np.sign(g * self.before)
        factor = np.where(agree > 0, self.etas[1], np.where(agree < 0, self.etas[0], 1.0))
        self.size = np.clip(self.size * factor, *self.limits)
        self.before = np.where(agree < 0, 0.0, g)
        return p - self.size * np.sign(self.before)


class Adafactor:
    def __init__(self, lr=1e-2, beta2_decay=-0.8, d=1.0, weight_decay=0.0):
        self.lr, self.power, self.d, self.decay = lr, beta2_decay, d, weight_decay
        self.rows = self.columns = self.v = 0.0
        self.t = 0

    def __call__(self, p, g):
        self.t += 1
        w = self.t**self.power
        scale = max(1e-3, np.sqrt(np.mean(p * p))) * min(self.lr, 1 / np.sqrt(self.t))
        p = p * (1 - self.lr * self.decay)
        eps = np.finfo(p.dtype).eps
        if p.ndim > 1:
            self.rows = (1 - w) * self.rows + w * np.mean(g * g, -1, keepdims=True)
            self.columns = (1 - w) * self.columns + w * np.mean(g * g, -2, keepdims=True)
            v = self.rows * self.columns / np.maximum(eps, np.mean(self.rows, -2, keepdims=True))
        else:
            self.v = (1 - w) * self.v + w * g * g
            v = self.v
        u = g / np.sqrt(np.maximum(v, eps * eps))
        return p - scale * u / max(1.0, np.sqrt(np.mean(u * u)) / self.d)


CASES = [
    ("Adam", Adam, {}),
    ("Adam", Adam, {"lr": 0.1, "betas": (0.7, 0.9), "eps": 1e-3, "weight_decay": 0.2}),
    ("Adam", Adam, {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", AdamW, {}),
    ("AdamW", AdamW, {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}),
    ("SGD", SGD, {"lr": 0.1}),
    ("SGD", SGD, {"lr": 0.1, "weight_decay": 0.2}),
    ("SGD", SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", SGD, {"lr": 0.1, "momentum": 0.8, "nesterov": True}),
    ("RMSprop", RMSprop, {}),
    ("RMSprop", RMSprop, {"lr": 0.05, "alpha": 0.8, "weight_decay": 0.1, "momentum": 0.7}),
    ("RMSprop", RMSprop, {"centered": True, "momentum": 0.5, "eps": 1e-3}),
    ("Adagrad", Adagrad, {}),
    ("Adagrad", Adagrad, {
        "lr": 0.1, "lr_decay": 0.3, "weight_decay": 0.1, "initial_accumulator_value": 0.5
    }),
    ("Adadelta", Adadelta, {"lr": 0.7, "rho": 0.8, "weight_decay": 0.1}),
    ("Adamax", Adamax, {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    ("NAdam", NAdam, {"lr": 0.05, "weight_decay": 0.1, "momentum_decay": 0.01}),
    ("NAdam", NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", RAdam, {"lr": 0.05, "weight_decay": 0.1}),
    ("RAdam", RAdam, {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", ASGD, {"lr": 0.1, "lambd": 0.1, "alpha": 0.6, "weight_decay": 0.1}),
    ("Rprop", Rprop, {"lr": 0.05, "etas": (0.4, 1.3), "step_sizes": (0.01, 0.07)}),
    ("Adafactor", Adafactor, {"lr": 0.1, "weight_decay": 0.1}),
]


@pytest.mark.parametrize(("name", "reference", "options"), CASES)
@pytest.mark.parametrize("maximize", [False, True])
def test_formula(name, reference, options, maximize):
    values = parameters()
    leaves = [leaf(v) for v in values]
    optimizer = getattr(torch.optim, name)(leaves, maximize=maximize, **options)
    run(optimizer, leaves)
    for k, (value, p) in enumerate(zip(values, leaves, strict=True)):
        update = reference(**options)
        for step in range(STEPS):
            g = gradients(step, values)[k]
            value = update(value, -g if maximize else g)
        # These two keep a scalar of their state in float32, as PyTorch does.
        rtol = 1e-6 if name in ("NAdam", "ASGD") else 1e-9
        np.testing.assert_allclose(p.detach().numpy(), value, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(("name", "reference", "options"), CASES)
def test_compiled_equals_formula_in_float32(name, reference, options, monkeypatch):
    from flambeau.optim import elementwise
    from flambeau.optim.kernel import Kernel

    ends = []
    for warm in (0, 1000):  # the compiled path from the first step on, and never
        monkeypatch.setattr(elementwise, "WARM", warm)
        monkeypatch.setattr(elementwise, "_compiled", set())
        leaves = [leaf(v) for v in parameters(dtype=np.float32)]
        optimizer = getattr(torch.optim, name)(leaves, **options)
        run(optimizer, leaves)
        kernels = getattr(optimizer, "_flambeau_kernels", {}).values()
        if name != "Adafactor":
            assert any(isinstance(k, Kernel) for k in kernels) == (not warm)
        ends.append([p.detach().numpy() for p in leaves])
    for compiled, formula in zip(*ends, strict=True):
        np.testing.assert_array_equal(compiled, formula)


@pytest.mark.parametrize("size", [1, 31, 1000])
def test_threads_share_an_update(size, monkeypatch):
    from flambeau.native.runtime.thread_pool import POOL
    from flambeau.optim import elementwise, kernel

    monkeypatch.setattr(elementwise, "WARM", 0)
    monkeypatch.setattr(kernel, "MAX_SINGLE_THREAD_ELEMENTS", 0)
    before, ends = POOL.threads(), []
    for threads in (1, 2):
        POOL.set_threads(threads)
        leaves = [leaf(np.linspace(-1, 1, n).astype("f")) for n in (size, 3, size)]
        optimizer = torch.optim.Adam(leaves, lr=0.1, weight_decay=0.1)
        for step in range(3):
            for p in leaves:
                p.grad = p.detach() * (step + 1)
            optimizer.step()
        ends.append([p.detach().numpy() for p in leaves])
    POOL.set_threads(before)
    for first, second in zip(*ends, strict=True):
        np.testing.assert_array_equal(first, second)


def test_asgd_averages_after_t0():
    leaves = [leaf(v) for v in parameters()]
    optimizer = torch.optim.ASGD(leaves, lr=0.1, t0=5)
    path = []
    for step in range(STEPS):
        run(optimizer, leaves, 1, step)
        path.append(leaves[0].detach().numpy().copy())
    mean = path[6]  # the first step after t0 starts the average
    for count, value in enumerate(path[7:], 2):
        mean = mean + (value - mean) / count
    np.testing.assert_allclose(optimizer.state[leaves[0]]["ax"].numpy(), mean, rtol=1e-6)


def test_muon_steps_are_nearly_orthogonal():
    w = torch.zeros(6, 4, requires_grad=True)
    optimizer = torch.optim.Muon([w], lr=1.0, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    w.grad = torch.from_numpy(np.random.default_rng(0).standard_normal((6, 4)).astype("f"))
    optimizer.step()
    singular = np.linalg.svd(w.detach().numpy(), compute_uv=False) / (0.2 * np.sqrt(6))
    assert singular.min() > 0.6
    assert singular.max() < 1.3


def test_lbfgs_minimises_rosenbrock():
    for search in (None, "strong_wolfe"):
        x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
        lr = 1.0 if search else 0.5
        optimizer = torch.optim.LBFGS([x], lr=lr, line_search_fn=search, max_iter=60)

        def closure(x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
            loss.backward()
            return loss

        first = optimizer.step(closure)
        assert first.item() == pytest.approx(24.2)
        for _ in range(10):
            last = optimizer.step(closure)
        if search:
            assert last.item() < 1e-8
            np.testing.assert_allclose(x.detach().numpy(), [1, 1], atol=1e-4)
        assert last.item() < first.item()


def test_lbfgs_refuses_other_searches_and_groups():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        torch.optim.LBFGS([x], line_search_fn="armijo").step(x.sum)
    y = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="doesn't support per-parameter options"):
        torch.optim.LBFGS([{"params": [x]}, {"params": [y]}])


@pytest.mark.parametrize(("name", "reference", "options"), CASES)
@pytest.mark.parametrize("how", ["state_dict", "pickle", "deepcopy"])
def test_round_trip(name, reference, options, how):
    values = parameters(dtype=np.float32)
    straight, resumed = [leaf(v) for v in values], [leaf(v) for v in values]
    cls = getattr(torch.optim, name)
    optimizer, before = cls(straight, **options), cls(resumed, **options)
    run(optimizer, straight)
    run(before, resumed, 5)
    if how == "state_dict":
        after = cls(resumed)
        after.load_state_dict(before.state_dict())
    else:
        after = pickle.loads(pickle.dumps(before)) if how == "pickle" else copy.deepcopy(before)
        resumed = after.param_groups[0]["params"]
    run(after, resumed, STEPS - 5, 5)
    for a, b in zip(straight, resumed, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize(("name", "reference", "options"), CASES)
def test_a_first_step_cut_short_at_any_line_leaves_one_that_works(name, reference, options):
    def interrupted(at):
        p = leaf(np.ones((2, 2)))
        optimizer = getattr(torch.optim, name)([p], **options)
        p.grad = torch.ones(2, 2).double()
        left = at

        def trace(frame, event, _):
            nonlocal left
            if "optim" not in frame.f_code.co_filename:
                return None
            left -= event == "line"
            if left == 0:
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        try:
            sys.settrace(trace)
            optimizer.step()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
            torch.set_grad_enabled(True)  # a cut at the end of a `with` leaves it out
        optimizer.step()
        return left <= 0

    at = 1
    while interrupted(at):
        at += 1
    assert at > 10
