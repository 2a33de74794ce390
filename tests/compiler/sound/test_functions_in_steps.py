"""Functions of the library in training steps: their Python is skipped, results are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

torch.manual_seed(7)
X, A = torch.randn(4, 4), torch.randn(4, 4) + 4 * torch.eye(4)
MASK, INDEX, LABELS = X > 0, torch.tensor([0, 2]), torch.tensor([0, 3, 1, 2])
WEIGHTS = torch.tensor([0.5, 1.0, 0.2, 2.0])
Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "number to a power": lambda w: 2**w,
    "negative number to a power": lambda w: torch.pow(-2, w.detach().round() + 0 * w),
    "ldexp": lambda w: torch.ldexp(X, w),
    "householder_product": lambda w: torch.linalg.householder_product(w, w[0]),
    "ormqr": lambda w: torch.ormqr(A, A[0], w),
    "lu": lambda w: torch.linalg.lu(w + A)[1],
    "lu_unpack": lambda w: torch.lu_unpack(*torch.linalg.lu_factor(w + A))[2],
    "lu_solve": lambda w: torch.linalg.lu_solve(*torch.linalg.lu_factor(w + A), X),
    "lstsq": lambda w: torch.linalg.lstsq(A, w).solution,
    "cov": torch.cov, "corrcoef": torch.corrcoef,
    "weighted cov": lambda w: torch.cov(w, aweights=WEIGHTS),
    "combinations": lambda w: torch.combinations(w[0]),
    "istft": lambda w: torch.istft(torch.stft(
        w.flatten(), 8, win_length=4, return_complex=True, window=torch.ones(4)), 8, win_length=4,
        window=torch.ones(4)),
    "quantile": lambda w: w.quantile(0.3, 0),
    "nanquantile": lambda w: w.nanquantile(WEIGHTS / 3, 1),
    "cumprod": lambda w: w.cumprod(1), "masked_scatter": lambda w: X.masked_scatter(MASK, w),
    "index_reduce": lambda w: X.index_reduce(0, INDEX, w[:2], "mean", include_self=False),
    "multi_margin_loss": lambda w: torch.nn.functional.multi_margin_loss(w, LABELS),
    "multilabel_margin_loss": lambda w: torch.nn.functional.multilabel_margin_loss(
        w, LABELS.expand(4, 4)),
    "new_tensor": lambda w: w * w.new_tensor([1.0, 2.0, 3.0, 4.0]),
    "as_tensor": lambda w: w * torch.as_tensor([1.0, 2.0, 3.0, 4.0]),
}


def take_step(function: Function, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    w.grad = None
    y = function(w)
    y.sum().backward()
    return y * 1, w.grad.clone()  # type: ignore[union-attr]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_python_around_a_function_is_skipped(name: str) -> None:
    w = torch.randn(4, 4, requires_grad=True)
    step = torch.compile(lambda: take_step(FUNCTIONS[name], w), mode="now")
    expected = take_step(FUNCTIONS[name], w)
    for _ in range(5):
        for a, b in zip(step(), expected, strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)
    assert "Python is skipped" in step.explain()


def test_values_that_a_program_checks_raise_as_in_eager_mode() -> None:
    LU, pivots = torch.linalg.lu_factor(A)
    step = torch.compile(lambda p: torch.linalg.lu_solve(LU, p, X), mode="now")
    for _ in range(5):
        step(pivots)
    with pytest.raises(RuntimeError, match="Pivots given to lu_solve must all be greater"):
        step(pivots * 0)
    loss = torch.compile(lambda t: torch.nn.functional.multi_margin_loss(X, t), mode="now")
    for _ in range(5):
        loss(LABELS)
    with pytest.raises(RuntimeError, match="target out of range"):
        loss(LABELS + 1)


def test_zeros_that_come_later_have_gradients() -> None:
    w = torch.tensor([3.0, 2.0, 0.5], requires_grad=True)
    step = torch.compile(lambda: take_step(lambda v: v.cumprod(0), w), mode="now")
    for _ in range(5):
        step()
    with torch.no_grad():
        w[1] = 0.0
    assert step()[1].tolist() == [1.0, 4.5, 0.0]


def test_repeated_counts_from_a_tensor_are_followed() -> None:
    w = torch.randn(3, 2, requires_grad=True)
    counts = torch.tensor([1, 2, 1])
    step = torch.compile(lambda: take_step(lambda v: v.repeat_interleave(counts, 0), w), mode="now")
    for k in range(8):
        if k == 5:
            counts[0] = 3
        y, grad = step()
        assert y.tolist() == w.repeat_interleave(counts, 0).tolist()
        assert grad[:, 0].tolist() == counts.tolist()
    assert "stays eager" not in step.explain()


def outcome(result: Any) -> Any:
    return [(t.dtype, t.shape, t.stride()) for t in result]


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (1, 3)])
def test_results_without_elements_keep_their_dtype(shape: tuple[int, ...]) -> None:
    def compute(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.complex(x, x + 1)
        return z, z[:, :2], torch.polar(x, x), z.exp(), z.real

    x = torch.ones(shape)
    compiled = torch.compile(compute, mode="now")
    assert all(outcome(compiled(x)) == outcome(compute(x)) for _ in range(5))


@pytest.mark.parametrize("solve", [
    lambda b, A: torch.linalg.solve_triangular(A, b, upper=True), torch.cholesky_solve])
def test_columns_keep_their_strides(solve: Any) -> None:
    def step(b: torch.Tensor, A: torch.Tensor) -> torch.Tensor:
        y = solve(b, A)
        y.sum().backward()
        return y

    compiled = torch.compile(step, mode="now")
    for _ in range(7):
        b, U = torch.randn(5, 1, requires_grad=True), torch.eye(5).requires_grad_()
        assert compiled(b, U).stride() == (1, 5)
