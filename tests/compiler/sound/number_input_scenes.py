"""Steps whose operators get numbers that differ in each call, and what those numbers may become.

Coefficients are large, so that a number of another call shows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import flambeau as torch
from flambeau import nn

from .scenario import Scene, collect

SCENES: dict[str, Callable[[], Scene]] = {}
scene = collect(SCENES)


def _on_counter(function: Callable[[Any, float], Any], start: float = 0,
                by: float = 1) -> Scene:
    """A step that counts its calls and computes from x and the count."""
    state = SimpleNamespace(t=start)

    def step(x: Any) -> Any:
        state.t += by
        return function(x, state.t)

    return Scene(step, lambda: setattr(state, "t", start + 5 * by))


def _on_outside(function: Callable[[Any, Any], Any], values: list[Any]) -> Scene:
    """A step that computes from x and an attribute that the program sets before each call."""
    state, remaining = SimpleNamespace(n=values[0]), itertools.cycle(values)

    def arguments() -> tuple:
        state.n = next(remaining)
        return (torch.randn(4, 3),)

    return Scene(lambda x: function(x, state), arguments=arguments)


COUNTED: dict[str, Callable[[Any, Any], Any]] = {
    "powers": lambda x, t: x / (1 - 0.9**t),
    "a root": lambda x, t: x * t**0.5,
    "a reciprocal": lambda x, t: x * (1 / t),
    "a number before": lambda x, t: 3.0 * t - x,
    "a dividend": lambda x, t: (10.0 * t) / (x.abs() + 1),
    "a cosine": lambda x, t: x * (0.5 * (1 + math.cos(math.pi * t / 20))),
    "an exponential": lambda x, t: x + math.exp(-0.3 * t),
    "a warmup": lambda x, t: x * min(1.0, t / 6),
    "a floor": lambda x, t: x * max(0.2, 1 - 0.1 * t),
    "a rounded number": lambda x, t: x * round(t / 3, 1),
    "a conversion": lambda x, t: x * float(t),
    "an absolute value": lambda x, t: x + abs(5.5 - t),
    "a remainder": lambda x, t: x * (t % 3.5),
    "a negative number": lambda x, t: x + -(t * 1.5),
    "a comparison": lambda x, t: (x * 4 > t * 0.4).float(),
    "an equality": lambda x, t: (torch.arange(12.0) == t * 1.0).float(),
    "in place": lambda x, t: x.clone().mul_(t * 0.5).add_(t * 1.5).sub_(t / 4).div_(t * 3.0),
    "in place operators": lambda x, t: _apply_in_place(x, t),
    "out=": lambda x, t: torch.mul(x, t * 0.5, out=torch.empty(4, 3)),
    "a named operand": lambda x, t: torch.mul(x, other=t * 0.5),
    "a scaled sum": lambda x, t: torch.add(x, x, alpha=t * 0.5),
    "a scaled difference": lambda x, t: x.sub(x, alpha=t * 0.5),
    "a product of three": lambda x, t: torch.addcmul(x, x, x, value=t * 0.5),
    "a quotient added": lambda x, t: torch.addcdiv(x, x, x.abs() + 1, value=t * 0.5),
    "a blend": lambda x, t: torch.lerp(x, x * 2, t / 20),
    "a power of a tensor": lambda x, t: (x.abs() + 1) ** (t / 4),
    "a bound": lambda x, t: x.clamp(max=t / 6),
    "a slope": lambda x, t: nn.functional.leaky_relu(x, t / 6),
    "a filled tensor": lambda x, t: x + torch.full((3,), t * 0.5),
    "a tensor of it": lambda x, t: x * torch.tensor(t * 0.5),
    "twice": lambda x, t: x * (t * 0.5) + (t * 0.5),
    "a shared variable": lambda x, t: _use_twice(x, t * 0.5),
    "an operator and a power": lambda x, t: _use_as_exponent(x, t * 0.5),
    "an operator and a branch": lambda x, t: _use_in_branch(x, t * 0.5),
    "a returned number": lambda x, t: (x * (t * 0.5), t * 0.5),
    "a number in a list": lambda x, t: _use_in_list(x, t * 0.5),
    "a function of ours": lambda x, t: _scale(x, by=t * 0.5),
    "doubles": lambda x, t: x.double() * (t / 3),
    "halves": lambda x, t: x.half() * (t / 4),
    "brain floats": lambda x, t: (x.bfloat16() + t / 4).float(),
    "integers": lambda x, t: torch.arange(6) * (t / 4),
    "booleans": lambda x, t: (x > 0) * (t / 4),
    "complex numbers": lambda x, t: torch.complex(x, x) * (t / 4),
    "mixed dtypes": lambda x, t: x.double() * x + t / 4,
    "a scalar tensor": lambda x, t: x.sum() * (t / 4),
    "an empty tensor": lambda x, t: x[:0] + t / 4,
    "integers of the count": lambda x, t: x * t,
    "a quotient by the count": lambda x, t: x / t,
    "the count in place": lambda x, t: x.clone().add_(t, alpha=2).mul_(t),
    "a large integer": lambda x, t: x.double() + int(t) * 2**52,
    "a huge integer": lambda x, t: x + int(t) * 10**30,
    "a size and a factor": lambda x, t: x[: int(t) % 4] * t,
    "a minimum of kinds": lambda x, t: x * max(0, 1 - t * 0.3),
    "a power by the count": lambda x, t: (x.abs() + 0.5) ** t,
    "a floored quotient": lambda x, t: x // (t + 0.5),
    "integers and the count": lambda x, t: torch.arange(6) * int(t),
    "a view of the count": lambda x, t: torch.ones(2, int(t) + 3).sum(1) * t,
    "an index": lambda x, t: x[int(t) % 4] * (t / 4),
    "a size": lambda x, t: torch.ones(int(t) % 3 + 1) * (t / 4),
    "division by zero later": lambda x, t: x * (1 / (t - 9)),
    "a complex root later": lambda x, t: x * (9.0 - t) ** 0.5,
    "overflow later": lambda x, t: x * math.exp(90.0 * t),
    "a domain error later": lambda x, t: x * math.sqrt(9 - t),
    "infinity": lambda x, t: x + 1e308 * t * 10,
    "a square root of NumPy": lambda x, t: x * math.sqrt(t) * 0.5,
}
for _name, _function in COUNTED.items():
    SCENES[_name] = lambda f=_function: _on_counter(f)
    SCENES[f"{_name}, of floats"] = lambda f=_function: _on_counter(f, 0.0, 1.0)


def _apply_in_place(x: Any, t: float) -> Any:
    x = x.clone()
    x *= t * 0.5
    x += t * 1.5
    x -= t / 4
    x /= t * 3.0
    return x


def _use_twice(x: Any, n: float) -> Any:
    return x * n + x / n - n


def _use_as_exponent(x: Any, n: float) -> Any:
    return x * n + x.abs() ** n


def _use_in_branch(x: Any, n: float) -> Any:
    return x * n if n < 3 else x - n


def _use_in_list(x: Any, n: float) -> Any:
    return torch.stack([x * s for s in [n, n + 1]])


def _scale(x: Any, by: float = 1.0) -> Any:
    return x * by


OUTSIDE: dict[str, list[Any]] = {
    "floats": [0.5, 1.5, 3.0, -2.0, 7.25],
    "a float, then integers": [0.5, 1.5, 3, 4, 2.5],
    "a float, then booleans": [0.5, 1.5, True, 2.5],
    "signs of zero": [0.0, -0.0],
    "not a number": [1.0, 2.0, math.nan, 3.0],
    "infinities": [1.0, 2.0, math.inf, -math.inf],
    "a float, then a tensor": [0.5, 1.5, torch.tensor(2.0), 3.5],
    "a float, then None": [0.5, 1.5, None, 3.5],
    "a float, then text": [0.5, 1.5, "a", 3.5],
    "tiny numbers": [1e-300, 1e-40, 1e-46, 3.0],
    "two values in turn": [0.5, 4.0],
    "integers": [1, 2, 3, -4, 0],
    "integers, then a float": [1, 2, 3.5, 4],
    "integers beyond floats": [1, 2, 2**53 + 1, 2**60],
    "integers, then booleans": [1, 2, False, True, 3],
}
for _name, _values in OUTSIDE.items():
    SCENES[f"set outside: {_name}"] = lambda v=_values: _on_outside(
        lambda x, state: 1 / (x.abs() + 1) * state.n + state.n, v)


class Tripled(float):
    """A number with arithmetic of its own."""

    def __mul__(self, other: Any) -> Any:
        return float(self) * 3 * other

    __rmul__ = __mul__


@scene
def _a_number_with_its_own_arithmetic() -> Scene:
    return _on_outside(lambda x, state: x * state.n, [0.5, 1.5, Tripled(2.5), 3.5])


@scene
def _one_object_at_two_places() -> Scene:
    shared = 0.5
    state = SimpleNamespace(a=shared, b=shared, n=0)

    def arguments() -> tuple:
        state.n += 1
        state.a = state.n * 0.75
        return (torch.randn(4, 3),)

    return Scene(lambda x: x * state.a + x * state.b, lambda: setattr(state, "b", 9.0), arguments)


@scene
def _both_places_hold_one_number() -> Scene:
    state = SimpleNamespace(a=0.5, b=0.5)

    def step(x: Any) -> Any:
        state.a = state.a + 1.0
        return x * state.a + x * state.b

    return Scene(step, lambda: vars(state).update(a=2.5, b=2.5))


@scene
def _written_before_it_is_read() -> Scene:
    state = SimpleNamespace(n=1.0)

    def step(x: Any) -> Any:
        state.n = state.n * 1.25
        y = x * state.n
        state.n = state.n - 0.125
        return y + state.n

    return Scene(step, lambda: setattr(state, "n", -3.0))


@scene
def _a_decayed_learning_rate() -> Scene:
    net = nn.Linear(3, 2)
    state = {"lr": 0.5}

    def step(x: Any) -> Any:
        loss = (net(x) ** 2).mean()
        grads = torch.autograd.grad(loss, [*net.parameters()])
        with torch.no_grad():
            for p, g in zip(net.parameters(), grads, strict=True):
                p -= state["lr"] * g
        state["lr"] *= 0.8
        return loss

    return Scene(step, lambda: state.update(lr=0.05), state=[*net.parameters()])


@scene
def _running_averages() -> Scene:
    meter = SimpleNamespace(sum=0.0, count=0)
    total = torch.zeros(3)

    def step(x: Any) -> Any:
        meter.count += len(x)
        total.add_(x.sum(0))
        return total / meter.count, x * meter.count

    return Scene(step, lambda: setattr(meter, "count", 100), state=[total])


class Meter:
    """PyTorch's examples' AverageMeter."""

    def __init__(self) -> None:
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val: Any, n: int = 1) -> None:
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


@scene
def _an_average_meter() -> Scene:
    meter, log = Meter(), []

    def step(x: Any) -> Any:
        y = (x**2).mean()
        meter.update(y.item(), x.size(0))
        return y

    def arguments() -> tuple:
        log.append([*vars(meter).values()])
        return (torch.randn(4, 3),)

    return Scene(step, lambda: vars(meter).update(sum=100.0, count=7), arguments, log=log)


def _smooth_loss(change: Callable[[Any], None], start: Any = 0.0) -> Scene:
    state, log = SimpleNamespace(loss=start, rate=0.9), []

    def step(x: Any) -> Any:
        y = (x**2).mean()
        state.loss = state.rate * state.loss + (1 - state.rate) * y.item()
        return y

    def arguments() -> tuple:
        log.append((state.loss, type(state.loss).__name__))
        return (torch.randn(4, 3),)

    return Scene(step, lambda: change(state), arguments, log=log)


SMOOTHED: dict[str, Callable[[Any], None]] = {
    "another number": lambda state: setattr(state, "loss", 50.0),
    "an integer": lambda state: setattr(state, "loss", 50),
    "a huge integer": lambda state: setattr(state, "loss", 10**400),
    "a tensor": lambda state: setattr(state, "loss", torch.ones(())),
    "another rate": lambda state: setattr(state, "rate", 0.25),
    "a rate of another class": lambda state: setattr(state, "rate", 1),
    "not a number": lambda state: setattr(state, "loss", math.nan),
}
for _name, _change in SMOOTHED.items():
    SCENES[f"a smoothed loss, {_name}"] = lambda c=_change: _smooth_loss(c)


@scene
def _a_quotient_by_a_count_that_becomes_zero() -> Scene:
    state = SimpleNamespace(count=3, mean=0.0)

    def step(x: Any) -> Any:
        state.mean = x.sum().item() / state.count
        return x

    return Scene(step, lambda: setattr(state, "count", 0), log=[str(state)])


@scene
def _two_numbers_of_one_smoothed_loss() -> Scene:
    state, log = SimpleNamespace(loss=1.25, twice=0.0, n=1, last=0), []

    def step(x: Any) -> Any:
        y = (x**2).mean()
        state.loss = 0.5 * state.loss + 0.5 * y.item()
        state.twice = 2.0 * state.loss
        state.last = state.n
        state.n += 1
        return y

    def arguments() -> tuple:
        log.append((state.loss, state.twice, state.last))
        return (torch.randn(4, 3),)

    return Scene(step, lambda: setattr(state, "loss", 9.0), arguments, log=log)


@scene
def _a_baseline() -> Scene:
    w, state = torch.randn(3, 2, requires_grad=True), SimpleNamespace(baseline=0.5)

    def step(x: Any) -> Any:
        reward = (x @ w).tanh()
        loss = (reward - state.baseline).pow(2).mean()
        loss.backward()
        state.baseline = 0.8 * state.baseline + 0.2 * reward.mean().item()
        with torch.no_grad():
            w.sub_(w.grad * 0.1)
            w.grad = None
        return loss

    return Scene(step, lambda: setattr(state, "baseline", -2.0), state=[w])


@scene
def _a_balance_between_losses() -> Scene:
    w, state = torch.randn(3, 2, requires_grad=True), {"k": 0.0}

    def step(x: Any) -> Any:
        real, fake = (x @ w).abs().mean(), (x @ w - 1).abs().mean()
        (real - state["k"] * fake).backward()
        gap = (0.75 * real - fake).detach()
        state["k"] = state["k"] + 0.25 * gap.item()
        state["k"] = min(max(state["k"], -0.5), 1)
        with torch.no_grad():
            w.sub_(w.grad * 0.1)
            w.grad = None
        return real + gap.abs()

    return Scene(step, lambda: state.update(k=0.75), state=[w])


@scene
def _a_temperature_that_falls() -> Scene:
    state = {"tau": 1.0}

    def step(x: Any) -> Any:
        y = nn.functional.gumbel_softmax(x, state["tau"])
        state["tau"] = max(0.1, state["tau"] * 0.8)
        return y

    return Scene(step, lambda: state.update(tau=3.0))


@scene
def _welford() -> Scene:
    mean, spread, n = torch.zeros(3), torch.zeros(3), [0]

    def step(x: Any) -> Any:
        n[0] += 1
        difference = x[0] - mean
        mean.add_(difference / n[0])
        spread.add_(difference * (x[0] - mean))
        return spread / n[0]

    return Scene(step, lambda: n.__setitem__(0, 50), state=[mean, spread])


@scene
def _adam_by_hand() -> Scene:
    net = nn.Linear(3, 2)
    parameters = [*net.parameters()]
    means = [torch.zeros_like(p) for p in parameters]
    squares = [torch.zeros_like(p) for p in parameters]
    steps = itertools.count(1)

    def step(x: Any) -> Any:
        t = next(steps)
        loss = (net(x) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for p, m, v in zip(parameters, means, squares, strict=True):
                g = p.grad
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.99).addcmul_(g, g, value=0.01)
                size = 0.1 * math.sqrt(1 - 0.99**t) / (1 - 0.9**t)
                p.addcdiv_(m, v.sqrt() + 1e-8, value=-size)
                p.grad = None
        return loss

    return Scene(step, lambda: [next(steps) for _ in range(5)], state=[*parameters, *means])


@scene
def _an_optimizer_by_hand() -> Scene:
    class Adam(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.1, "betas": (0.9, 0.99)})

        def step(self) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state["step"] = 0
                        state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                    b1, b2 = group["betas"]
                    state["step"] += 1
                    state["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                    state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                    size = group["lr"] * math.sqrt(1 - b2 ** state["step"])
                    size /= 1 - b1 ** state["step"]
                    p.data.addcdiv_(state["m"], state["v"].sqrt().add_(1e-8), value=-size)

    net = nn.Linear(3, 2)
    optimizer = Adam(net.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Scene(step, lambda: optimizer.param_groups[0].update(lr=0.01),
                 state=[*net.parameters()])


@scene
def _a_number_in_backward() -> Scene:
    w, state = torch.randn(3, 3, requires_grad=True), SimpleNamespace(t=0)

    def step(x: Any) -> Any:
        state.t += 1
        s = state.t / 3
        y = x @ w
        loss = (y * s + (s - y) / (s + 9.0) + s / (y.abs() + 1)).sum()
        loss.backward()
        gradient = w.grad.clone()
        w.grad = None
        return loss, gradient

    return Scene(step, lambda: setattr(state, "t", 20), state=[w])


@scene
def _a_second_derivative() -> Scene:
    w, state = torch.randn(3, 3, requires_grad=True), SimpleNamespace(t=0)

    def step(x: Any) -> Any:
        state.t += 1
        s = state.t / 3
        y = (torch.tanh(x @ w) * s / (s + 2.0) - s).pow(2).sum()
        g, = torch.autograd.grad(y, w, create_graph=True)
        (g * s).pow(2).sum().backward()
        result = w.grad.clone()
        w.grad = None
        return result

    return Scene(step, lambda: setattr(state, "t", 20), state=[w])


@scene
def _backward_outside() -> Scene:
    w, state = torch.randn(3, 3, requires_grad=True), SimpleNamespace(t=0)
    log: list[Any] = []

    def step(x: Any) -> Any:
        state.t += 1
        s = state.t / 3
        return torch.tanh(x @ w * s) / (s + 9.0) * s

    def arguments() -> tuple:
        log.append(None if w.grad is None else w.grad.clone())
        w.grad = None
        return (torch.randn(4, 3),)

    def run(x: Any) -> Any:
        return step(x)

    return Scene(run, lambda: setattr(state, "t", 20), arguments, state=[w], log=log)


@scene
def _a_function_of_autograd() -> Scene:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: float) -> Any:
            ctx.n = n
            return x * n

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.n + ctx.n, None

    w, state = torch.randn(3, 3, requires_grad=True), SimpleNamespace(t=0)

    def step(x: Any) -> Any:
        state.t += 1
        Scale.apply(x @ w, state.t * 0.5).sum().backward()
        result = w.grad.clone()
        w.grad = None
        return result

    return Scene(step, lambda: setattr(state, "t", 20), state=[w])


@scene
def _a_number_argument() -> Scene:
    numbers = itertools.count(1)
    return Scene(lambda x, n: x * n + n, arguments=lambda: (torch.randn(4, 3),
                                                            next(numbers) * 0.5))


@scene
def _a_named_number_argument() -> Scene:
    numbers = itertools.count(1)
    step = Scene(lambda x, n=1.0: x * n if n < 4 else x - n).step
    return Scene(lambda x, n: step(x, n=n), arguments=lambda: (torch.randn(4, 3),
                                                               next(numbers) * 0.5))


@scene
def _two_number_arguments() -> Scene:
    numbers = itertools.count(1)

    def arguments() -> tuple:
        n = next(numbers)
        return torch.randn(4, 3), n * 0.5, (n // 3) * 0.25

    return Scene(lambda x, a, b: x * a + b, arguments=arguments)


@scene
def _a_number_argument_that_becomes_an_integer() -> Scene:
    numbers = itertools.cycle([0.5, 1.5, 2, 3.5, True, 4.5])
    return Scene(lambda x, n: x * n, arguments=lambda: (torch.randn(4, 3), next(numbers)))


@scene
def _an_annealed_loss_of_a_module() -> Scene:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.beta = nn.Linear(3, 2), 0.0

        def forward(self, x: Any) -> Any:
            h = self.encode(x)
            return (h**2).sum() + self.beta * h.abs().sum()

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        optimizer.step()
        return loss

    def arguments() -> tuple:
        model.beta = min(1.0, model.beta + 0.15)
        return (torch.randn(4, 3),)

    return Scene(step, lambda: setattr(model, "beta", 0.0), arguments,
                 state=[*model.parameters()])


@scene
def _a_global_and_a_cell() -> Scene:
    rate = 1.0

    def step(x: Any) -> Any:
        nonlocal rate
        rate *= 1.25
        return x * rate

    def change() -> None:
        nonlocal rate
        rate = -2.0

    return Scene(step, change)


@scene
def _a_property_of_a_number() -> Scene:
    class Schedule:
        t = 0

        @property
        def rate(self) -> float:
            return 0.5 * self.t

    schedule = Schedule()

    def step(x: Any) -> Any:
        schedule.t += 1
        return x * schedule.rate

    return Scene(step, lambda: setattr(Schedule, "rate", 7.0))


@scene
def _printed_and_used() -> Scene:
    state, log = SimpleNamespace(t=0), []

    def step(x: Any) -> Any:
        state.t += 1
        log.append(f"{state.t * 0.5:.2f}")
        return x * (state.t * 0.5)

    return Scene(step, lambda: setattr(state, "t", 20), log=log)


@scene
def _math_is_replaced() -> Scene:
    state, cosine = SimpleNamespace(t=0), math.cos

    def step(x: Any) -> Any:
        state.t += 1
        return x * math.cos(state.t / 3)

    def change() -> Callable[[], None]:
        math.cos = lambda x: 9.0
        return lambda: setattr(math, "cos", cosine)

    return Scene(step, change)


@scene
def _multiplication_is_replaced() -> Scene:
    state, before = SimpleNamespace(t=0), torch.Tensor.__mul__

    def step(x: Any) -> Any:
        state.t += 1
        return x * (state.t / 3)

    def change() -> Callable[[], None]:
        torch.Tensor.__mul__ = lambda a, b: before(a, b) + 1  # type: ignore[method-assign]
        return lambda: setattr(torch.Tensor, "__mul__", before)

    return Scene(step, change)
