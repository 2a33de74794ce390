"""A Function whose backward gives another gradient than its forward has."""

from __future__ import annotations

import contextlib
import dis
import io
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from ....autograd.backward import grad as gradients_of
from ....ops.creation.random import get_rng_state, set_rng_state
from ....tensor.tensor import Tensor, wrap
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_NUMBERS = 1 << 14  # of the arguments that are copied
_FUNCTIONS = 16
_STEPS = (1e-4, 1e-5)  # of the differences: where both agree the function is smooth
_DIRECTIONS = 3
_SMOOTH = 1e-3  # by how much both differences may differ
_MIN_SLOPE = 1e-9  # below, differences are rounding
_AGREEMENT = 0.05  # of backward and differences
_LINEAR = 1e-6  # by how much backward of a negated gradient may differ


class FunctionGradient(Rule):
    """Keeps the arguments of a Function's first call and compares, when the program is over,
    backward with differences of forward in double precision."""

    id = "function-gradient-differs"
    level = Level.LIKELY
    needs = ("on_apply",)
    title = "a Function's backward is not the derivative of its forward: a factor is missing"
    why = (
        "forward is evaluated again at the end, near the arguments of its first call. Not "
        "reported if the Function intends a different gradient: forward is the identity "
        "(reversed, clipped or scaled gradients), forward has steps (rounding, spikes), backward "
        "passes the gradient through unchanged (straight-through), or backward is not linear in "
        "the gradient."
    )
    fix = "compare with torch.autograd.gradcheck(Function.apply, inputs in float64)"
    broken = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x**2  # <-

net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    F.mse_loss(Cube.apply(net(x)), t).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "return grad * x**2  # <-": "return grad * 3 * x**2",
    })
    healthy = (edit(broken, {
        # The identity, with a reversed gradient.
        "return x**3": "return x.clone()",
        "return grad * x**2  # <-": "return -0.1 * grad",
    }), edit(broken, {
        # A spike, with the derivative of a smooth curve.
        "return x**3": "return (x > 0).float()",
        "return grad * x**2  # <-": "return grad / (1 + x.abs()) ** 2",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.calls: dict[Any, tuple[tuple[Any, ...], list[int], Spot | None]] = {}

    def on_apply(self, function: Any, args: tuple[Any, ...], result: Any,
                 spot: Spot | None) -> None:
        if function in self.calls or len(self.calls) >= _FUNCTIONS:
            return
        tensors = [a for a in args if isinstance(a, Tensor)]
        varied = [n for n, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad
                  and a._array.dtype.kind == "f"]
        single = isinstance(result, Tensor) and result.requires_grad
        if not varied or not single or sum(a._array.size for a in tensors) > _NUMBERS:
            return
        copies = tuple(
            np.array(a._array) if isinstance(a, Tensor) else a for a in args
        )
        self.calls[function] = copies, varied, spot

    def finish(self) -> None:
        for function, (args, varied, spot) in self.calls.items():
            state = get_rng_state()
            try:
                with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                    ratio = Comparison(function.apply, args, varied).ratio()
            except Exception:  # a forward that cannot be called twice, or not in double precision
                continue
            finally:
                set_rng_state(state)
            code = getattr(function.backward, "__code__", None)
            if ratio is None or code is None:
                continue
            self.report(
                f"{function.__name__}.backward gives {ratio:.3g} times the derivative of forward",
                Place(code.co_filename, find_last_return(code), code.co_qualname), spot,
                **{"backward / differences of forward": ratio},
            )


class Comparison:
    """A function in double precision, near some arguments."""

    def __init__(self, apply: Callable[..., Any], args: tuple[Any, ...], varied: list[int]) -> None:
        self.apply, self.varied = apply, varied
        self.args = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f"
                     else a for a in args]
        self.random = np.random.default_rng(0)
        leaves, result = self.run(self.args)
        self.shapes = [leaf._array.shape for leaf in leaves]
        self.is_identity = any(
            result._array.shape == leaf._array.shape and np.allclose(result._array, leaf._array)
            for leaf in leaves
        )
        signs = self.random.choice((-1.0, 1.0), result._array.shape)
        self.weight = np.asarray(signs * self.random.uniform(0.5, 1.5, signs.shape))

    def run(self, values: list[Any]) -> tuple[list[Tensor], Tensor]:
        """The arguments that are differentiated, and the result."""
        tensors = [wrap(np.array(v)) if isinstance(v, np.ndarray) else v for v in values]
        leaves = [tensors[n].requires_grad_() for n in self.varied]
        return leaves, self.apply(*tensors)

    def backward(self, factor: np.ndarray) -> list[np.ndarray]:
        """What the function's backward makes of a gradient."""
        leaves, result = self.run(self.args)
        rows = gradients_of(result, leaves, wrap(factor), allow_unused=True)
        return [np.zeros(leaf._array.shape) if row is None else row._array
                for leaf, row in zip(leaves, rows, strict=True)]

    def slope(self, directions: list[np.ndarray], step: float) -> float:
        """Return a central difference of the weighted result along a direction."""
        ends = []
        for sign in (step, -step):
            arguments = list(self.args)
            for n, direction in zip(self.varied, directions, strict=True):
                arguments[n] = self.args[n] + sign * direction
            ends.append(float((self.run(arguments)[1]._array * self.weight).sum()))
        return (ends[0] - ends[1]) / (2 * step)

    def ratio(self) -> float | None:
        """Return the ratio of backward's directional derivatives to finite differences; None if
        they agree, or if another gradient may be intended."""
        if self.is_identity:
            return None
        rows, opposite = self.backward(self.weight), self.backward(-self.weight)
        for row, opposite_row in zip(rows, opposite, strict=True):
            linear = np.allclose(row, -opposite_row, rtol=_LINEAR, atol=1e-12)
            straight = row.shape == self.weight.shape and np.allclose(row, self.weight)
            if straight or not linear:
                return None
        ratios = []
        for _ in range(_DIRECTIONS):
            directions = [np.asarray(self.random.standard_normal(shape)) for shape in self.shapes]
            coarse, fine = (self.slope(directions, step) for step in _STEPS)
            derivative = sum(float((row * direction).sum())
                             for row, direction in zip(rows, directions, strict=True))
            smooth = abs(coarse - fine) <= _SMOOTH * abs(fine) and abs(fine) > _MIN_SLOPE
            if not smooth or not np.isfinite(derivative) or abs(derivative / fine - 1) < _AGREEMENT:
                return None
            ratios.append(derivative / fine)
        return float(np.median(ratios))


def find_last_return(code: CodeType) -> int:
    """The line of a function's last return."""
    lines = [i.positions.lineno for i in dis.get_instructions(code)
             if i.opname == "RETURN_VALUE" and i.positions is not None]
    return lines[-1] or code.co_firstlineno if lines else code.co_firstlineno
