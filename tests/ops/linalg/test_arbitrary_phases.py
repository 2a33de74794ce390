"""Vectors of decompositions are known up to a sign or phase: gradients of losses that use them."""

import pytest

import flambeau as torch

LOSSES = {
    "svd U": lambda A: torch.linalg.svd(A, full_matrices=False).U,
    "svd of both": lambda A: sum(torch.linalg.svd(A, full_matrices=False)[::2]),
    "eigh": lambda A: torch.linalg.eigh(A + A.mH).eigenvectors,
    "eig": lambda A: torch.linalg.eig(A).eigenvectors,
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_depends_on_a_phase_is_refused(name):
    torch.manual_seed(0)
    A = torch.randn(2, 3, 3, dtype=torch.complex128, requires_grad=True)
    vectors = LOSSES[name](A)
    with pytest.raises(RuntimeError, match=r"up to multiplication by e\^{i phi}.*ill-def"):
        vectors.sum().abs().backward(retain_graph=True)
    if name != "svd of both":
        vectors.abs().sum().backward()  # whose phase does not matter
        assert A.grad.isfinite().all()


def test_a_product_of_both_vectors_is_known():
    A = torch.randn(3, 3, dtype=torch.complex128, requires_grad=True)
    U, _, Vh = torch.linalg.svd(A)
    (U @ Vh).real.sum().backward()
    assert A.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_the_gradient_of_eigenvectors_is_hermitian(dtype):
    torch.manual_seed(0)
    A = torch.randn(4, 4, dtype=dtype)
    A = (A + A.mH).requires_grad_()
    V = torch.linalg.eigh(A).eigenvectors
    (V.abs() * torch.arange(16.0).view(4, 4)).sum().backward()
    assert torch.allclose(A.grad, A.grad.mH)
