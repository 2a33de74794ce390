"""Optimisers against formulas written out in NumPy, and what the base class promises."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import flambeau as torch

STEPS = 12  # beyond the steps after which the compiled path takes over


class Adam:
    def __init__(
        self, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False,
        decoupled=False,
    ):  # fmt: skip
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
    ):  # fmt: skip
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
    ):  # fmt: skip
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
]  # fmt: skip


def parameters(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shapes = [(4, 3), (3,), (2, 3, 2)]
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def gradients(step, values):
    rng = np.random.default_rng(100 + step)
    return [rng.standard_normal(v.shape).astype(v.dtype) for v in values]


def leaf(value):
    return torch.from_numpy(value.copy()).requires_grad_()


def run(optimizer, leaves, steps=STEPS, first=0):
    for step in range(first, first + steps):
        for p, g in zip(leaves, gradients(step, [p.detach().numpy() for p in leaves]), strict=True):
            p.grad = torch.from_numpy(g)
        optimizer.step()


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
        kernels = getattr(optimizer, "_kernels", {}).values()
        if name != "Adafactor":
            assert any(isinstance(k, Kernel) for k in kernels) == (not warm)
        ends.append([p.detach().numpy() for p in leaves])
    for compiled, formula in zip(*ends, strict=True):
        np.testing.assert_array_equal(compiled, formula)


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


# -------------------------------------------------------------------- arguments

OUT_OF_RANGE = [
    ("SGD", {"lr": -0.5}, "Invalid learning rate: -0.5"),
    ("SGD", {"momentum": -0.5}, "Invalid momentum value: -0.5"),
    ("SGD", {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
    ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
    ("Adam", {"lr": -1}, "Invalid learning rate: -1"),
    ("Adam", {"betas": (1.0, 0.0)}, "Invalid beta parameter at index 0: 1.0"),
    ("Adam", {"betas": (0.5, 1.5)}, "Invalid beta parameter at index 1: 1.5"),
    ("Adam", {"betas": (0, 0.5)}, "betas must be either both floats or both Tensors"),
    ("Adam", {"eps": -1.0}, "Invalid epsilon value: -1.0"),
    ("AdamW", {"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
    ("RMSprop", {"momentum": -1.0}, "Invalid momentum value: -1.0"),
    ("RMSprop", {"alpha": -1.0}, "Invalid alpha value: -1.0"),
    ("Adagrad", {"lr_decay": -0.5}, "Invalid lr_decay value: -0.5"),
    ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value"),
    ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
    ("Adamax", {"betas": (0.0, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    ("NAdam", {"momentum_decay": -0.2}, "Invalid momentum_decay value: -0.2"),
    ("RAdam", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("ASGD", {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
    ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
    ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
    ("Adafactor", {"beta2_decay": 0.8}, "beta2_decay should be <= 0 but is: 0.8"),
    ("Muon", {"momentum": -1}, "momentum should be >= 0 but is: -1"),
    ("Muon", {"adjust_lr_fn": "none"}, "Adjust learning rate function none is not supported"),
    ("SparseAdam", {"lr": 0.0}, "Invalid learning rate: 0.0"),
]


@pytest.mark.parametrize(("name", "options", "message"), OUT_OF_RANGE)
def test_values_out_of_range(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(torch.optim, name)([torch.ones(2, 2, requires_grad=True)], **options)


def test_parameters_must_be_leaves_in_ordered_collections():
    w = torch.ones(2, requires_grad=True)
    sgd = torch.optim.SGD
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        sgd([])
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts, but got"):
        sgd(w)
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        sgd([w * 2])
    with pytest.raises(TypeError, match="can only optimize Tensors, but one of the params is str"):
        sgd(["w"])
    optimizer = sgd([w])
    with pytest.raises(TypeError, match="the ordering of tensors in sets will change"):
        optimizer.add_param_group({"params": {torch.ones(1)}})
    with pytest.raises(TypeError, match="param_group must be a dict"):
        optimizer.add_param_group([w])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimizer.add_param_group({"params": w})
    with pytest.warns(UserWarning, match="parameter group with duplicate parameters"):
        sgd([w, w])
    kept = w * 2
    kept.retain_grad()
    sgd([kept])


def test_fused_excludes_foreach_and_differentiable():
    w = torch.ones(2, requires_grad=True)
    for cls in (torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad):
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            cls([w], fused=True, differentiable=True)
        with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
            cls([w], fused=True, foreach=True)


def test_required_options():
    from flambeau.optim.optimizer import Optimizer, required

    class Plain(Optimizer):
        def step(self, closure=None):
            return None

    w = torch.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="value of required optimization parameter lr"):
        Plain([w], {"lr": required})
    with pytest.raises(NotImplementedError):
        Optimizer([w], {}).step()


def test_groups_have_options_of_their_own():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1, momentum=0.9)
    a.grad, b.grad = torch.ones(2), torch.ones(2)
    optimizer.step()
    assert a.tolist() == pytest.approx([0.9, 0.9])
    assert b.tolist() == [0.5, 0.5]
    c = torch.ones(2, requires_grad=True)
    optimizer.add_param_group({"params": [c], "momentum": 0})
    assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9, 0]


def test_named_parameters():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([("a", a)], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["a"]
    assert optimizer.param_groups[0]["params"][0] is a
    with pytest.raises(ValueError, match="cannot add param group without names to the optimizer"):
        optimizer.add_param_group({"params": [b]})
    optimizer.add_param_group({"params": [("b", b)]})
    with pytest.raises(ValueError, match="Some param names are missing"):
        torch.optim.SGD([("a", a), b])


# -------------------------------------------------------------------- what a step does


def test_zero_grad():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w])
    w.grad = torch.ones(2)
    kept = w.grad
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is kept
    assert kept.tolist() == [0, 0]
    optimizer.zero_grad()
    assert w.grad is None


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_frozen_parameters(name):
    w = torch.ones(2, requires_grad=True)
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(torch.optim, name)([w], lr=0.1, weight_decay=0.1, **options)
    optimizer.step()
    assert w.tolist() == [1, 1]
    assert not optimizer.state
    w.grad = torch.zeros(2)
    optimizer.step()
    assert w[0].item() < 1  # a gradient of zero: weight decay moves it


def test_momentum_drifts_on_zero_gradients():
    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=0.1)
    expected, velocity = 1.0, 0.0
    for _ in range(10):
        w.grad = torch.zeros(1)
        optimizer.step()
        velocity = 0.9 * velocity + 0.1 * expected
        expected -= 0.1 * velocity
        assert w.item() == pytest.approx(expected, rel=1e-5)


def test_parameters_that_join_later_and_sit_out():
    a, b = [leaf(v) for v in parameters()[:2]]
    alone = leaf(parameters()[0])
    both, single = torch.optim.Adam([a, b], lr=0.1), torch.optim.Adam([alone], lr=0.1)
    for step in range(STEPS):
        a.grad = alone.grad = torch.from_numpy(gradients(step, parameters())[0])
        b.grad = torch.ones_like(b) if step % 3 == 1 else None
        both.step()
        single.step()
    assert a.tolist() == alone.tolist()
    assert both.state[b]["step"].item() == 4


def test_step_counts_as_a_write():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([w])
    for _ in range(STEPS):
        y = w * w
        y.sum().backward(retain_graph=True)
        before = w._version
        optimizer.step()
        assert w._version > before
        with pytest.raises(RuntimeError, match=r"modified by an in-?place operation"):
            y.sum().backward()


def test_gradients_and_parameters_that_are_not_contiguous():
    value = np.arange(6.0).reshape(2, 3)
    plain, turned = leaf(value), torch.from_numpy(value.T.copy()).t().detach().requires_grad_()
    assert not turned.is_contiguous()
    optimizers = [torch.optim.Adam([p], lr=0.1) for p in (plain, turned)]
    for step in range(STEPS):
        g = np.random.default_rng(step).standard_normal((3, 2))
        plain.grad = torch.from_numpy(g.T.copy())
        turned.grad = torch.from_numpy(g).t()
        for optimizer in optimizers:
            optimizer.step()
    assert plain.tolist() == turned.tolist()
    plain.grad = torch.ones(1, 1, dtype=torch.float64).expand(2, 3)
    optimizers[0].step()


def test_mixed_dtypes():
    values = [np.ones(3, np.float16), np.ones(3, np.float32), np.ones(3), np.ones(3, np.complex64)]
    leaves = [leaf(v) for v in values]
    optimizer = torch.optim.SGD(leaves, lr=0.125, momentum=0.5)
    for _ in range(STEPS):
        for p in leaves:
            p.grad = torch.ones_like(p)
        optimizer.step()
    want = 1 - 0.125 * sum(2 - 2.0**-k for k in range(STEPS))
    for p in leaves:
        assert p[0].item() == pytest.approx(want, rel=1e-2)


def test_state_replaced_by_hand_is_used():
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.5)
    for _ in range(STEPS):
        w.grad = torch.zeros(2, dtype=torch.float64)
        optimizer.step()
    optimizer.state[w]["momentum_buffer"] = torch.full((2,), 4.0, dtype=torch.float64)
    optimizer.step()
    assert w.tolist() == pytest.approx([0.8, 0.8])
    w.data = torch.zeros(2, dtype=torch.float64)
    optimizer.step()
    assert w.tolist() == pytest.approx([-0.1, -0.1])


def test_learning_rate_as_tensor():
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    rate = torch.tensor(0.5, dtype=torch.float64)
    optimizer = torch.optim.SGD([w], lr=rate)
    w.grad = torch.ones(2, dtype=torch.float64)
    optimizer.step()
    rate.fill_(0.25)
    optimizer.step()
    assert w.tolist() == [0.25, 0.25]
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        torch.optim.SGD([w], lr=torch.ones(2))


def test_differentiable_step():
    lr = torch.tensor(0.5, requires_grad=True)
    leaf_w = torch.ones(2, requires_grad=True)
    w = leaf_w.clone()
    w.retain_grad()
    optimizer = torch.optim.SGD([w], lr=lr, differentiable=True)
    w.grad = torch.tensor([2.0, 3.0])
    optimizer.step()
    w.sum().backward()
    assert lr.grad.item() == -5
    assert leaf_w.grad.tolist() == [1, 1]


def test_differentiable_adam():
    lr = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    w = torch.ones(2, dtype=torch.float64, requires_grad=True).clone()
    optimizer = torch.optim.Adam([w], lr=lr, differentiable=True, amsgrad=True)
    for _ in range(2):
        w.grad = torch.tensor([2.0, 3.0], dtype=torch.float64)
        optimizer.step()
    w.sum().backward()
    assert lr.grad.item() == pytest.approx(-4, abs=1e-6)  # each step is -lr * sign(grad)


def test_closure():
    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)

    def closure():
        assert torch.is_grad_enabled()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 1
    assert w.item() == pytest.approx(0.8)


# -------------------------------------------------------------------- hooks


def test_step_hooks():
    from flambeau.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )  # fmt: skip

    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    calls = []

    def note(name):
        return lambda own, args, kwargs: calls.append((name, own is optimizer, len(args)))

    handles = [
        optimizer.register_step_pre_hook(note("pre")),
        optimizer.register_step_post_hook(note("post")),
        register_optimizer_step_pre_hook(note("global pre")),
        register_optimizer_step_post_hook(note("global post")),
    ]
    optimizer.step()
    names = ["global pre", "pre", "post", "global post"]
    assert calls == [(name, True, 1) for name in names]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(calls) == 4
    optimizer.register_step_pre_hook(lambda own, args, kwargs: (args, {"closure": lambda: 7}))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda own, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_state_dict_hooks():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    calls = []
    optimizer.register_state_dict_pre_hook(lambda own: calls.append("pre"))
    optimizer.register_state_dict_post_hook(lambda own, state: {**state, "more": 1})
    state = optimizer.state_dict()
    assert state.pop("more") == 1
    state["param_groups"][0]["lr"] = 0.2
    optimizer.register_load_state_dict_post_hook(lambda own: calls.append("loaded"))
    optimizer.register_load_state_dict_pre_hook(lambda own, state: calls.append("second"))
    optimizer.register_load_state_dict_pre_hook(
        lambda own, state: calls.append("first"), prepend=True
    )
    optimizer.load_state_dict(state)
    assert calls == ["pre", "first", "second", "loaded"]
    assert optimizer.param_groups[0]["lr"] == 0.2


# -------------------------------------------------------------------- saving


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


def test_state_dict_numbers_parameters_across_groups():
    a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
    optimizer = torch.optim.Adam([{"params": [a, b]}, {"params": [c]}])
    c.grad = torch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    assert [g["params"] for g in state["param_groups"]] == [[0, 1], [2]]
    assert list(state["state"]) == [2]
    assert list(state["state"][2]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][2]["step"].dtype is torch.float32


def test_load_state_dict_casts_and_checks():
    single = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([single])
    single.grad = torch.ones(2)
    optimizer.step()
    double = torch.ones(2, dtype=torch.float64, requires_grad=True)
    other = torch.optim.Adam([double])
    other.load_state_dict(optimizer.state_dict())
    state = other.state[double]
    assert state["exp_avg"].dtype is torch.float64
    assert state["step"].dtype is torch.float32
    more = torch.optim.Adam([double, torch.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        more.load_state_dict(optimizer.state_dict())
    more = torch.optim.Adam([{"params": [double]}, {"params": [torch.ones(1)]}])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        more.load_state_dict(optimizer.state_dict())


def test_old_counters_become_tensors():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([w])
    w.grad = torch.ones(2)
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    state["state"][0]["step"] = 3
    optimizer.load_state_dict(state)
    optimizer.step()
    assert optimizer.state[w]["step"].item() == 4


def test_repr():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    assert repr(optimizer) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n"
        "    foreach: None\n    fused: None\n    lr: 0.1\n    maximize: False\n"
        "    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


def test_sparse_adam_refuses_dense_gradients():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SparseAdam([w])
    w.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        optimizer.step()


def test_swapped_in_parameters_and_state():
    w = torch.ones(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5, momentum=0.5)
    w.grad = torch.ones(1, dtype=torch.float64)
    optimizer.step()
    packed = optimizer.state_dict()
    packed["state"] = {0: {"momentum_buffer": torch.full((1,), 8.0, dtype=torch.float64)}}
    guest = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    guest.grad = torch.zeros(1, dtype=torch.float64)
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"w": guest}, packed):
        optimizer.step()
    assert guest.item() == -2
    assert w.item() == 0.5
    assert optimizer.state[w]["momentum_buffer"].item() == 1
    fresh = torch.optim.SGD([w])
    swap = torch.optim.swap_in_optimizer_params_and_state(fresh, {}, packed)
    with pytest.raises(RuntimeError, match="requires initialized optimizer state"), swap:
        pass


def test_no_warnings_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leaves = [leaf(v) for v in parameters()]
        run(torch.optim.Adam(leaves), leaves)
