"""Forward-mode rules of solutions and factors, beside finite differences and transposed vjps."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

CASES: dict[str, Any] = {
    "inv": (torch.linalg.inv, [(2, 4, 4)]),
    "solve": (torch.linalg.solve, [(4, 4), (4, 3)]),
    "solve a batch": (torch.linalg.solve, [(2, 4, 4), (2, 4, 3)]),
    "solve, broadcast": (torch.linalg.solve, [(4, 4), (2, 4, 3)]),
    "solve for a vector": (torch.linalg.solve, [(4, 4), (4,)]),
    "solve for vectors": (torch.linalg.solve, [(2, 4, 4), (2, 4)]),
    "solve from the right": (lambda A, B: torch.linalg.solve(A, B, left=False), [(4, 4), (3, 4)]),
    "cholesky": (lambda A: torch.linalg.cholesky(A @ A.mH), [(2, 4, 4)]),
    "cholesky, upper": (lambda A: torch.linalg.cholesky(A @ A.mH, upper=True), [(4, 4)]),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", CASES)
def test_forward_mode(name: str, dtype: Any) -> None:
    torch.manual_seed(0)
    f, shapes = CASES[name]
    inputs = [torch.randn(shape, dtype=dtype) for shape in shapes]
    inputs[0] = inputs[0] + 4 * torch.eye(4, dtype=dtype)
    for moved in ([0], [len(inputs) - 1], list(range(len(inputs)))):
        leaves = tuple(x.clone().requires_grad_(i in moved) for i, x in enumerate(inputs))
        assert torch.autograd.gradcheck(f, leaves, check_forward_ad=True,
                                        check_batched_forward_grad=True)
    assert torch.autograd.gradgradcheck(f, leaves, check_fwd_over_rev=True,
                                        check_rev_over_rev=False)
