"""torch.sparse.spsolve against dense solutions; its derivatives; what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

DENSE = torch.tensor([[4.0, 0, 1], [0, 2, 0], [3, 0, 5]], dtype=torch.float64)
CSR = DENSE.to_sparse_csr()


def solve_values(values: Any, other: Any) -> Any:
    """The solution as a function of the stored values."""
    a = torch.sparse_csr_tensor(CSR.crow_indices(), CSR.col_indices(), values, (3, 3))
    return torch.sparse.spsolve(a, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_solutions(dtype: Any, shape: tuple[int, ...]) -> None:
    a, b = DENSE.to(dtype), torch.arange(1, 4).to(dtype)
    b = b if len(shape) == 1 else torch.stack([b, b * 2], 1)
    x = torch.sparse.spsolve(a.to_sparse_csr(), b)
    torch.testing.assert_close(x, torch.linalg.solve(a, b))
    row = torch.sparse.spsolve(a.to_sparse_csr(), b.T if b.dim() > 1 else b, left=False)
    torch.testing.assert_close(row @ a, b.T if b.dim() > 1 else b)


@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_derivatives(shape: tuple[int, ...]) -> None:
    values = CSR.values().clone().requires_grad_()
    other = torch.linspace(-1, 1, 6, dtype=torch.float64)[:3 * len(shape)].reshape(shape)
    other.requires_grad_()
    assert torch.autograd.gradcheck(solve_values, (values, other), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(solve_values, (values, other))


def test_a_gradient_has_the_places_of_the_matrix() -> None:
    a = CSR.clone().requires_grad_()
    torch.sparse.spsolve(a, torch.ones(3, dtype=torch.float64)).sum().backward()
    assert a.grad is not None
    assert a.grad.layout is torch.sparse_csr
    assert a.grad.col_indices().tolist() == CSR.col_indices().tolist()


@pytest.mark.parametrize("input, other, text", [
    (DENSE, DENSE[0], "CSR layout"),
    (DENSE[:2].to_sparse_csr(), DENSE[0], "square"),
    (CSR, DENSE[0, :2], "do not fit"),
    (CSR, DENSE[0].float(), "one dtype"),
    (CSR, CSR, "dense vector"),
])
def test_refusals(input: Any, other: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        torch.sparse.spsolve(input, other)


def test_a_singular_matrix() -> None:
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.sparse.spsolve(torch.zeros(2, 2).to_sparse_csr(), torch.ones(2))


def test_addmv() -> None:
    x, y = torch.ones(3, dtype=torch.float64), torch.arange(3, dtype=torch.float64)
    wanted = torch.addmv(x, DENSE, y, beta=2, alpha=3)
    torch.testing.assert_close(torch.addmv(x, CSR, y, beta=2, alpha=3), wanted)
