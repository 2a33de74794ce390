"""Arguments that functions of matrices refuse, and values at which they are infinite."""

from __future__ import annotations

import math

import pytest


@pytest.mark.parametrize("name", ["addmm", "addbmm", "addmv", "baddbmm", "addr"])
@pytest.mark.parametrize("factor", ["beta", "alpha"])
def test_complex_factors_of_real_results(torch, name, factor):
    a, v = torch.ones(2, 2), torch.ones(2)
    operands = {"addmm": (a, a, a), "addbmm": (a, a[None], a[None]), "addmv": (v, a, v),
                "baddbmm": (a[None], a[None], a[None]), "addr": (a, v, v)}[name]
    with pytest.raises(RuntimeError, match="cannot be converted to type float without overflow"):
        getattr(torch, name)(*operands, **{factor: 1j})


def test_boolean_factors_of_outer_products(torch):
    a, v = torch.ones(2, 2), torch.ones(2)
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        torch.addr(a, v, v, alpha=True)
    a, v = a.bool(), v.bool()
    assert bool(torch.addr(a, v, v, alpha=True).all())


@pytest.mark.parametrize("pivot, limit", [(0, "greater or equal to 1"), (3, "smaller or equal to")])
def test_pivots_that_are_no_rows(torch, pivot, limit):
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    LU, pivots = torch.linalg.lu_factor(a)
    pivots[0] = pivot
    with pytest.raises(RuntimeError, match=limit):
        torch.linalg.lu_solve(LU, pivots, a)
    with pytest.raises(RuntimeError, match="must be between 1 and LU.size"):
        torch.lu_unpack(LU, pivots)
    assert torch.lu_unpack(LU, pivots, unpack_pivots=False)[1].shape == (2, 2)


@pytest.mark.parametrize("p", [None, 1, -1, 2, math.inf, -math.inf, "fro", "nuc"])
def test_condition_of_a_singular_matrix(torch, p):
    a = torch.diag(torch.tensor([1.0, 1.0, 0.0]))
    assert torch.linalg.cond(a, p).item() == math.inf


def test_eigenvalues_of_infinite_entries(torch):
    with pytest.raises(RuntimeError, match=r"^torch\.linalg\.eig: input tensor should not contain"):
        torch.linalg.eig(torch.tensor([[1.0, math.inf], [0.0, 1.0]]))


@pytest.mark.parametrize("center", [True, False])
def test_principal_components_of_a_sparse_matrix(torch, center):
    a = torch.tensor([[1.0, 0, 2, 0], [0, 3, 0, 0], [0, 0, 0, 1], [2, 0, 0, 0], [0, 0, 1, 5]])
    U, S, V = torch.pca_lowrank(a.to_sparse(), 4, center)
    whole = a - a.mean(0) if center else a
    assert torch.allclose(S, torch.linalg.svdvals(whole), atol=1e-5)
    assert torch.allclose(U * S @ V.mT, whole, atol=1e-5)


def test_products_of_booleans(torch):
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.ones(2, 2, dtype=torch.bool) @ torch.ones(2, 2, dtype=torch.bool)


@pytest.mark.parametrize("error, words, arguments", [
    (ValueError, "must specify the equation string and at least one operand", ("", [])),
    (TypeError, "argument 'equation' .* must be str, not list", ([1.0], "a")),
    (TypeError, "expected Tensor as element 0 in argument 1, but got float", ("a", 1.0)),
    (RuntimeError, r"for output that is not part of any ellipsis \(\.\.\.\)", ("a->..", 1)),
    (RuntimeError, "dimension 1 covered by ellipsis in operand 1has size 3", ("...,...", 1, 2)),
    (ValueError, r"subscript list is not within the valid range \[0, 52\)", (1, [52])),
])
def test_einsum(torch, error, words, arguments):
    operands = {1: torch.ones(2), 2: torch.ones(2, 3)}
    with pytest.raises(error, match=words):
        torch.einsum(*(operands[a] if a.__class__ is int else a for a in arguments))


@pytest.mark.parametrize("driver", ["gelsd", "gelsy"])
def test_least_squares_of_no_right_hand_sides(torch, driver):
    result = torch.linalg.lstsq(torch.rand(1, 3, 2), torch.rand(0, 3, 1), driver=driver)
    assert result.solution.shape == (0, 2, 1) and result.rank.shape == (1,)


def test_chains_name_the_tensor(torch):
    a = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match=r"multi_dot\(\): tensor 1 must be 2D but got 1D"):
        torch.linalg.multi_dot([a, a[0], a])
    with pytest.raises(RuntimeError, match="the last tensor must be 1D or 2D but got 3D"):
        torch.linalg.multi_dot([a, a, a[None]])
