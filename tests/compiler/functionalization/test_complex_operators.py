"""Operators on complex numbers run in programs, on their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

F = torch.nn.functional
REAL, ROWS = torch.linspace(-1, 2, 30).reshape(6, 5), torch.tensor([2, 0])
MATRIX = torch.complex(REAL.T.sin().contiguous(), REAL.T.cos().contiguous())
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sums and products": lambda a: a * a + a,
    "real operands": lambda a: a * REAL - 2 * a + REAL,
    "complex numbers": lambda a: (1 + 2j) * a + 3j,
    "absolute values": lambda a: a.abs(),
    "angles": lambda a: torch.polar(a.abs(), a.angle() * 2),
    "where": lambda a: torch.where(a.abs() < 1, a, a * 2),
    "conjugates": lambda a: (a * a.conj_physical()).real,
    "products of matrices": lambda a: a @ MATRIX,
    "a linear layer": lambda a: F.linear(a, MATRIX.T.contiguous(), MATRIX[0] + 1j),
    "sums of rows": lambda a: a.sum(0) + a.mean(1)[:5],
    "exponentials": lambda a: torch.exp(1j * a.real),
    "joined": lambda a: torch.cat([a, a * 2], 1),
    "joined with reals": lambda a: torch.stack([a, a + 0j * REAL]),
    "gathered rows": lambda a: a[ROWS],
    "rolled": lambda a: a.roll(1, 0).flip(1),
    "quotients": lambda a: a / 2 + a / (REAL + 3) + a / (a + 5),
    "reciprocals": lambda a: a.reciprocal() + a.sgn(),
    "running sums": lambda a: a.cumsum(0),
    "pairs": lambda a: torch.view_as_real(a * 2),
    "padding": lambda a: F.pad(a, (1, 1)),
    "in place": lambda a: (a * 1).add_(a).mul_(2),
    "squares": lambda a: a.square() + a**2,
    "transposes": lambda a: (a * 2).mT @ a,
}


def _make_step(function: Callable[[Any], Any], with_gradient: bool) -> Callable[[Any], Any]:
    def step(a: Any) -> Any:
        y = function(a + 0)
        if not with_gradient:
            return y
        loss = (y.abs() if y.is_complex() else y).square().sum()
        return y.detach(), torch.autograd.grad(loss, a)[0]

    return step


def _draw(i: int, with_gradient: bool) -> Any:
    torch.manual_seed(i)
    return torch.randn(6, 5, dtype=torch.complex64).requires_grad_(with_gradient)


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_complex_numbers_are_compiled(name: str, with_gradient: bool) -> None:
    step = _make_step(FUNCTIONS[name], with_gradient)
    call = torch.compile(step, options={"mode": "now"})
    for i in range(6):
        actual, wanted = call(_draw(i, with_gradient)), step(_draw(i, with_gradient))
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-5)
    report = call.explain()
    assert "Python is skipped" in report
    assert " call_" not in report, report


EXTREMES = [0.0, -0.0, 1.0, -2.0, 1e-30, 1e30, float("inf"), -float("inf"), float("nan")]


@pytest.mark.parametrize("name", ["quotients", "absolute values", "signs"])
def test_extremes(name: str) -> None:
    """The last bits may differ, but nothing overflows earlier than eagerly."""
    parts = torch.tensor(EXTREMES)
    numbers = torch.complex(*torch.meshgrid(parts, parts, indexing="ij")).reshape(-1)
    formula = {"quotients": lambda a, b: a / b, "absolute values": lambda a, b: a.abs() + b.real,
               "signs": lambda a, b: a.sgn() + b.imag}[name]

    def step(a: Any, b: Any) -> Any:
        return formula(a + 0, b + 0)

    call = torch.compile(step, options={"mode": "now"})
    for _ in range(4):
        call(torch.randn(81, 1) + 1j, torch.randn(81) + 1j)
    actual, wanted = call(numbers[:, None], numbers), step(numbers[:, None], numbers)
    assert " call_" not in call.explain()
    torch.testing.assert_close(torch.view_as_real(actual) if actual.is_complex() else actual,
                               torch.view_as_real(wanted) if wanted.is_complex() else wanted,
                               rtol=1e-5, atol=0, equal_nan=True)


def test_what_has_no_formula_is_called_eagerly() -> None:
    call = torch.compile(lambda a: torch.fft.fft(a * 2) + a, options={"mode": "now"})
    for i in range(5):
        a = _draw(i, False)
        torch.testing.assert_close(call(a), torch.fft.fft(a * 2) + a)
    assert "fft_c2c" in call.explain()
