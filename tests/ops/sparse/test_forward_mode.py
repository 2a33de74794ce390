"""Forward mode through sparse tensors: tangents are difference quotients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.func import jvp

STEP = 1e-6


def matrix(seed: int) -> Any:
    """A 4 x 4 matrix, a third of it zero, with a full diagonal."""
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 4, generator=draws, dtype=torch.float64)
    is_stored = torch.rand(4, 4, generator=draws) > 0.35
    return x * is_stored + 3 * torch.eye(4, dtype=torch.float64)


FIXED = matrix(1).to_sparse()
DENSE = matrix(2)
COO = matrix(3).to_sparse().coalesce()
CSR = COO.to_sparse_csr()


def coo(values: Any) -> Any:
    return torch.sparse_coo_tensor(COO.indices(), values, (4, 4))


def csr(values: Any) -> Any:
    return torch.sparse_csr_tensor(CSR.crow_indices(), CSR.col_indices(), values, (4, 4))


OF_VALUES: dict[str, Callable[[Any], Any]] = {
    "to_dense": coo,
    "coo @ dense": lambda v: coo(v) @ DENSE,
    "csr @ dense": lambda v: csr(v) @ DENSE,
    "csr @ vector": lambda v: csr(v).mv(DENSE[0]),
    "sparse.mm": lambda v: torch.sparse.mm(coo(v), DENSE),
    "sparse @ sparse": lambda v: torch.sparse.mm(coo(v), FIXED),
    "addmm": lambda v: torch.sparse.addmm(DENSE, coo(v), DENSE, beta=2, alpha=3),
    "transpose": lambda v: coo(v).t() @ DENSE,
    "product": lambda v: coo(v) * coo(v),
    "sum with sparse": lambda v: coo(v) + FIXED,
    "sum with dense": lambda v: DENSE + coo(v),
    "difference": lambda v: FIXED - coo(v),
    "quotient": lambda v: coo(v) / 3,
    "power": lambda v: coo(v) ** 2,
    "sine": lambda v: coo(v).sin(),
    "relu": lambda v: coo(v).relu(),
    "softmax": lambda v: torch.sparse.softmax(coo(v), 1),
    "log_softmax": lambda v: torch.sparse.log_softmax(coo(v), 0),
    "sum": lambda v: torch.sparse.sum(coo(v)),
    "sum of columns": lambda v: torch.sparse.sum(coo(v), 0),
    "index_select": lambda v: coo(v).index_select(0, torch.tensor([2, 1])),
    "cat": lambda v: torch.cat([coo(v), FIXED]),
    "spsolve": lambda v: torch.sparse.spsolve(csr(v), DENSE[0]),
}
OF_DENSE: dict[str, Callable[[Any], Any]] = {
    "coo @ dense": lambda x: COO @ x,
    "csr @ dense": lambda x: torch.sparse.mm(CSR, x),
    "addmm": lambda x: torch.addmm(x, COO, x, beta=2, alpha=3),
    "sparse_mask": lambda x: x.sparse_mask(FIXED),
    "to_sparse": lambda x: (x.sum() * torch.eye(4, dtype=torch.float64)).to_sparse(),
    "spsolve": lambda x: torch.sparse.spsolve(CSR, x),
    "spsolve from the right": lambda x: torch.sparse.spsolve(CSR, x, left=False),
}


def check(function: Callable[[Any], Any], x: Any, t: Any) -> None:
    """Compare the tangent with a central difference quotient."""

    def dense(x: Any) -> Any:
        return function(x).to_dense()

    y, tangent = jvp(dense, (x,), (t,))
    torch.testing.assert_close(y, dense(x))
    quotient = (dense(x + STEP * t) - dense(x - STEP * t)) / (2 * STEP)
    assert quotient.abs().max() > 1e-2
    torch.testing.assert_close(tangent, quotient, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", OF_VALUES)
def test_tangents_of_values(name: str) -> None:
    values = COO.values().clone()
    check(OF_VALUES[name], values, torch.linspace(-1, 2, len(values), dtype=torch.float64))


@pytest.mark.parametrize("name", OF_DENSE)
def test_tangents_of_dense_operands(name: str) -> None:
    check(OF_DENSE[name], DENSE, matrix(4))


def test_an_operator_without_a_rule_says_so() -> None:
    with pytest.raises(NotImplementedError, match="forward AD with sampled on sparse tensors"):
        jvp(lambda x: torch.sparse.sampled_addmm(CSR, x, DENSE), (DENSE,), (DENSE,))


def test_a_sparse_primal_and_tangent() -> None:
    y, t = jvp(lambda x: x @ DENSE, (COO,), (COO * 2,))
    torch.testing.assert_close(t, 2 * y)
