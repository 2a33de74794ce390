"""Most steps whose operators get other numbers in each call are proved (see test_scenes.py), and
derivatives follow the numbers."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

from .number_input_scenes import SCENES
from .scenario import assert_python_is_skipped

SKIPPED = (
    "powers", "a root", "a reciprocal", "a number before", "a dividend", "a cosine",
    "an exponential", "a warmup", "a floor", "a rounded number", "a conversion",
    "an absolute value", "a remainder", "a negative number", "a comparison", "in place",
    "in place operators", "a named operand", "twice", "a shared variable", "doubles",
    "a scalar tensor", "a number argument", "two number arguments", "a decayed learning rate",
    "an annealed loss of a module", "a global and a cell", "a number in backward",
    "a second derivative", "one object at two places", "both places hold one number",
    "written before it is read", "set outside: floats", "adam by hand", "a scaled sum",
    "a scaled difference", "a product of three", "a quotient added", "a blend", "out=",
    "an equality", "a property of a number", "a function of ours", "backward outside",
    "integers of the count", "a quotient by the count", "running averages", "welford",
    "set outside: integers", "a minimum of kinds",
)


@pytest.mark.parametrize("name", SKIPPED)
def test_python_is_skipped(name: str) -> None:
    assert_python_is_skipped(SCENES[name])


OPERATORS = {
    "add": lambda x, n: x + n, "sub": lambda x, n: x - n, "rsub": lambda x, n: n - x,
    "mul": lambda x, n: x * n, "div": lambda x, n: x / n, "rdiv": lambda x, n: n / x,
    "div of a number": lambda x, n: torch.div(torch.ones(()) * n, x),
    "alpha": lambda x, n: torch.add(x, x * 2, alpha=n),
    "negative alpha": lambda x, n: torch.sub(x, x * 2, alpha=n),
    "value of a product": lambda x, n: torch.addcmul(x, x * 2, x, value=n),
    "value of a quotient": lambda x, n: torch.addcdiv(x, x * 2, x, value=n),
    "weight": lambda x, n: torch.lerp(x, x * 3, n),
    "in place": lambda x, n: (x * 1).mul_(n).add_(n).sub_(n, alpha=2).div_(n),
    "maximum": lambda x, n: torch.where(x > n, x * n, x),
}


@pytest.mark.parametrize("differentiates", [True, False])
@pytest.mark.parametrize("first", [1.0, -1.0, 2.0, 0.5])
@pytest.mark.parametrize("name", OPERATORS)
def test_derivatives_follow_the_number(name: str, first: float, differentiates: bool) -> None:
    """The recorded number may be one by which formulas decide, such as 1."""
    torch.manual_seed(0)
    leaf = (torch.rand(3, 2) + 0.5).requires_grad_(differentiates)
    state = [first]

    def step() -> Any:
        n = state[0]
        state[0] = n * 1.25
        y = OPERATORS[name](leaf, n).pow(2).sum()
        if not differentiates:
            return y
        g, = torch.autograd.grad(y, leaf, create_graph=True)
        h, = torch.autograd.grad(g.pow(2).sum(), leaf)
        return y.detach(), g.detach(), h

    expected = [step() for _ in range(7)]
    state[0] = first
    compiled = torch.compile(step, options={"mode": "now", "follow": None})
    for want in expected:
        torch.testing.assert_close(compiled(), want, rtol=1e-4, atol=1e-4)
