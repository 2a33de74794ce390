"""Large batches of small matrices: the same factors and solutions as one matrix at a time."""

from __future__ import annotations

import pytest

MANY = 40  # matrices, more than the loops over columns have steps


def _close(torch, y, single):
    assert torch.allclose(y, torch.stack(single), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_triangular_solves(torch, size, upper, dtype):
    dtype = getattr(torch, dtype)
    A = torch.randn(MANY, size, size, dtype=dtype) + 4 * torch.eye(size)
    B = torch.randn(MANY, size, 3, dtype=dtype)
    for unit in (False, True):
        solve = torch.linalg.solve_triangular
        _close(torch, solve(A, B, upper=upper, unitriangular=unit),
               [solve(a, b, upper=upper, unitriangular=unit) for a, b in zip(A, B, strict=True)])
        right = solve(A, B.mT, upper=upper, left=False, unitriangular=unit)
        _close(torch, right, [solve(a, b, upper=upper, left=False, unitriangular=unit)
                              for a, b in zip(A, B.mT, strict=True)])
    factor = A.triu() if upper else A.tril()
    _close(torch, torch.cholesky_solve(B, factor, upper),
           [torch.cholesky_solve(b, f, upper) for f, b in zip(factor, B, strict=True)])


def test_a_shared_matrix_is_not_copied_apart(torch):
    A, B = torch.randn(3, 3).double().tril() + 4 * torch.eye(3), torch.randn(2, MANY, 3, 1).double()
    x = torch.linalg.solve_triangular(A, B, upper=False)
    assert x.shape == B.shape
    assert torch.allclose(A @ x, B)


def test_the_other_triangle_is_not_read(torch):
    A = torch.eye(3).repeat(MANY, 1, 1)
    A[:, 0, 2] = float("nan")
    B = torch.ones(MANY, 3, 1)
    assert torch.equal(torch.linalg.solve_triangular(A, B, upper=False), B)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 1)])
def test_factors_with_pivots(torch, shape, dtype):
    A = torch.randn(MANY, *shape, dtype=getattr(torch, dtype))
    LU, pivots = torch.linalg.lu_factor(A)
    single = [torch.linalg.lu_factor(a) for a in A]
    _close(torch, LU, [factors.LU for factors in single])
    assert torch.equal(pivots, torch.stack([factors.pivots for factors in single]))
    P, L, U = torch.linalg.lu(A)
    assert torch.allclose(P @ L @ U, A)


def test_zero_pivots_are_reported_by_matrix(torch):
    A = torch.eye(3).repeat(MANY, 1, 1)
    A[7, 1, 1] = 0
    A[9] = 0
    info = torch.linalg.lu_factor_ex(A).info
    assert info[[6, 7, 8, 9]].tolist() == [0, 2, 0, 1]


def test_gradients_of_a_batch(torch):
    A = (torch.randn(MANY, 2, 2).double() + 4 * torch.eye(2)).requires_grad_()
    B = torch.randn(MANY, 2, 1).double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True)[:3], (A, B))


def test_no_call_per_matrix(monkeypatch):
    import flambeau as torch
    from flambeau.ops.linalg import lu, solves

    def refuse(*_):
        raise AssertionError("a LAPACK call for one matrix of a large batch")

    monkeypatch.setattr(lu, "get_lapack_routine", refuse)
    monkeypatch.setattr(solves, "get_lapack_routine", refuse)
    A = torch.eye(3).repeat(MANY, 1, 1)
    torch.linalg.lu_factor(A)
    torch.linalg.solve_triangular(A, A, upper=False)
    torch.cholesky_solve(A, A)


@pytest.mark.parametrize("upper", [False, True])
def test_gradients_of_triangular_factors_have_all_elements(torch, upper):
    """A = L L^H of any L: linear_operator compares with the gradient of a solve with A."""
    L = torch.tensor([[2.0, 0, 0], [1, 3, 0], [-1, 2, 1]], dtype=torch.float64)
    L = (L.mT.contiguous() if upper else L).requires_grad_()
    A = L.mT @ L if upper else L @ L.mT
    B = torch.tensor([[1.0, 2], [-3, 1], [0, 2]], dtype=torch.float64)
    weights = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)
    pairs = [(torch.cholesky_solve(B, L, upper), torch.linalg.solve(A, B)),
             (torch.cholesky_inverse(L, upper) * weights, torch.linalg.inv(A) * weights)]
    for y, expected in pairs:
        gradients = [torch.autograd.grad(x.sum(), L, retain_graph=True)[0] for x in (y, expected)]
        torch.testing.assert_close(*gradients)
        assert gradients[0].all()
