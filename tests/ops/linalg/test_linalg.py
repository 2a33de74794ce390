"""Linear algebra: what the decompositions mean, their derivatives, and their refusals."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

DTYPES = [torch.float64, torch.complex128]


def matrix(*shape, dtype=torch.float64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * 0.3
    if dtype.is_complex:
        x = x + 1j * rng.normal(size=shape) * 0.3
    n = min(shape[-2:])
    x[..., range(n), range(n)] += np.linspace(1.5, 3.5, n)
    return torch.from_numpy(x)


def hermitian(x):
    return (x + x.mH) / 2


def close(x, y, atol=1e-10):
    x, y = x.detach().resolve_conj(), y.detach().resolve_conj()
    np.testing.assert_allclose(x.numpy(), y.numpy(), atol=atol)


# -------------------------------------------------------------------------- what they mean


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3), (0, 2), (2, 0, 0)])
def test_factors_multiply_to_the_matrix(shape, dtype):
    A = matrix(*shape, dtype=dtype) if 0 not in shape else torch.zeros(shape, dtype=dtype)
    U, S, Vh = torch.linalg.svd(A, full_matrices=False)
    close((U * S.unsqueeze(-2)) @ Vh, A)
    Q, R = torch.linalg.qr(A)
    close(Q @ R, A)
    P, L, U = torch.linalg.lu(A)
    close(P @ L @ U, A)
    close(A @ torch.linalg.pinv(A) @ A, A)


@pytest.mark.parametrize("dtype", DTYPES)
def test_square_factors(dtype):
    A = matrix(2, 3, 3, dtype=dtype)
    H = A @ A.mH
    L = torch.linalg.cholesky(H)
    close(L @ L.mH, H)
    close(torch.linalg.cholesky(H, upper=True), L.mH)
    values, vectors = torch.linalg.eigh(H)
    close(vectors @ (values.unsqueeze(-1) * vectors.mH), H)
    values, vectors = torch.linalg.eig(A)
    close(A.to(torch.complex128) @ vectors, vectors * values.unsqueeze(-2))
    LD, pivots = torch.linalg.ldl_factor(H, hermitian=True)
    B = matrix(2, 3, 3, dtype=dtype, seed=1)
    close(H @ torch.linalg.ldl_solve(LD, pivots, B, hermitian=True), B)
    a, tau = torch.geqrf(A)
    close(torch.linalg.householder_product(a, tau), torch.linalg.qr(A).Q)
    close(torch.ormqr(a, tau, B), torch.linalg.qr(A).Q @ B)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
def test_solutions(left, dtype):
    A, B = matrix(2, 3, 3, dtype=dtype), matrix(3, 3, dtype=dtype, seed=1)

    def check(M, X):
        close(M @ X if left else X @ M, B.expand(2, 3, 3))

    check(A, torch.linalg.solve(A, B, left=left))
    factors = torch.linalg.lu_factor(A)
    check(A, torch.linalg.lu_solve(*factors, B, left=left))
    check(A.mH, torch.linalg.lu_solve(*factors, B, left=left, adjoint=True))
    check(A.triu(), torch.linalg.solve_triangular(A, B, upper=True, left=left))
    close(A @ torch.linalg.inv(A), torch.eye(3, dtype=dtype).expand(2, 3, 3))


def test_vectors_on_the_right_hand_side():
    A, b = matrix(2, 3, 3), matrix(2, 3, seed=1)
    close((A @ torch.linalg.solve(A, b).unsqueeze(-1)).squeeze(-1), b)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(driver):
    A, B = matrix(5, 3), matrix(5, 2, seed=1)
    actual = torch.linalg.lstsq(A, B, driver=driver)
    close(A.mT @ (A @ actual.solution), A.mT @ B)
    assert actual.residuals.shape == ((0,) if driver == "gelsy" else (2,))
    assert actual.singular_values.shape == ((3,) if driver in ("gelsd", "gelss") else (0,))


def test_exponential_and_powers():
    A = matrix(2, 3, 3)
    values, vectors = torch.linalg.eigh(hermitian(A))
    close(torch.matrix_exp(hermitian(A)), vectors @ (values.exp().unsqueeze(-1) * vectors.mT))
    close(torch.matrix_exp(A * 20) @ torch.matrix_exp(-A * 20) / 1e9, A * 0, 1e6)
    close(torch.linalg.matrix_power(A, 5), A @ A @ A @ A @ A)
    close(torch.linalg.matrix_power(A, -2) @ A @ A, torch.eye(3, dtype=A.dtype).expand(2, 3, 3))


def test_determinants_of_many_and_of_few():
    A = matrix(50, 3, 3)
    wanted = np.linalg.det(A.numpy())
    np.testing.assert_allclose(torch.det(A).numpy(), wanted)
    np.testing.assert_allclose(torch.det(A[:3]).numpy(), wanted[:3])
    assert torch.det(torch.zeros(0, 0)).item() == 1


# ------------------------------------------------------------------------------ derivatives

FUNCTIONS = {
    "svd": lambda A: [x.abs() for x in torch.linalg.svd(A, full_matrices=False)],
    "qr": lambda A: list(torch.linalg.qr(A)), "pinv": torch.linalg.pinv,
    "lu": lambda A: list(torch.linalg.lu(A))[1:],
    "inv": torch.linalg.inv, "det": torch.linalg.det, "slogdet": lambda A: torch.slogdet(A)[1],
    "eigh": lambda A: [x.abs() for x in torch.linalg.eigh(hermitian(A))],
    "eig": lambda A: [x.abs() for x in torch.linalg.eig(A)],
    "cholesky": lambda A: torch.linalg.cholesky(A @ A.mH),
    "lu_factor": lambda A: torch.linalg.lu_factor(A)[0], "exp": torch.matrix_exp,
    "nuclear": lambda A: torch.linalg.matrix_norm(A, "nuc"),
    "lstsq": lambda A: torch.linalg.lstsq(A, torch.ones_like(A)).solution,
}
SQUARE = {"inv", "det", "slogdet", "eigh", "eig", "cholesky", "lu_factor", "exp"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name, dtype):
    if name == "qr" and dtype.is_complex:
        shapes = [(3, 2)]
    else:
        shapes = [(3, 3)] if name in SQUARE else [(3, 3), (3, 2), (2, 3)]
    for shape in shapes:
        assert gradcheck(FUNCTIONS[name], (matrix(*shape, dtype=dtype).requires_grad_(),))


@pytest.mark.parametrize("name", ["svd", "qr", "lu", "inv", "det", "slogdet", "eigh", "cholesky",
                                  "exp", "pinv"])
def test_second_derivatives(name):
    assert gradgradcheck(FUNCTIONS[name], (matrix(2, 2).requires_grad_(),))


def test_derivative_of_the_determinant_of_a_singular_matrix():
    A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    torch.det(A).backward()
    close(A.grad, torch.tensor([[4.0, -2.0], [-2.0, 1.0]], dtype=torch.float64))


def test_derivatives_of_reflections_and_solves():
    A, tau = matrix(3, 2).requires_grad_(), matrix(2, 2)[0].requires_grad_()
    assert gradcheck(torch.linalg.householder_product, (A, tau))
    B = matrix(3, 2, seed=1).requires_grad_()
    L = matrix(3, 3).tril().requires_grad_()
    assert gradcheck(lambda B, L: torch.cholesky_solve(B, L.tril()), (B, L))
    assert gradcheck(lambda L: torch.cholesky_inverse(L.tril()), (L,))
    assert gradcheck(lambda A, B: torch.linalg.solve(A, B), (L, B))


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "words"),
    [(lambda: torch.linalg.inv(torch.zeros(2, 2)), "diagonal element 1 is zero"),
     (lambda: torch.linalg.solve(torch.zeros(3, 2, 2), torch.ones(2)), "Batch element 0"),
     (lambda: torch.linalg.cholesky(-torch.eye(2)), "leading minor of order 1"),
     (lambda: torch.linalg.svd(torch.full((2, 2), float("nan"))), "non-finite")],
)
def test_matrices_that_cannot_be_taken(call, words):
    with pytest.raises(torch.linalg.LinAlgError, match=words) as caught:
        call()
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "eigh", "matrix_exp"])
def test_only_square_matrices(name):
    with pytest.raises(RuntimeError, match="batches of square matrices, but they are 2 by 3"):
        getattr(torch.linalg, name)(torch.ones(2, 3))


def test_info_tells_what_errors_would():
    A = torch.stack([torch.eye(2), torch.zeros(2, 2)])
    assert torch.linalg.inv_ex(A).info.tolist() == [0, 1]
    assert torch.linalg.cholesky_ex(A - torch.eye(2) / 2).info.tolist() == [0, 1]
    assert torch.linalg.solve_ex(A, torch.ones(2, 2)).info.tolist() == [0, 1]
    assert torch.linalg.lu_factor_ex(A).info.tolist() == [0, 1]


def test_out_takes_the_result():
    A, out = matrix(2, 2), torch.empty(0, dtype=torch.float64)
    assert torch.linalg.inv(A, out=out) is out
    close(out, torch.linalg.inv(A))


# ------------------------------------------------------------------------------------ norms


@pytest.mark.parametrize("order", [0, 0.5, 1, 1.5, 2, 3, float("inf"), -1, -float("inf")])
def test_vector_norms(order):
    x = matrix(3, 4)
    for dim in (0, 1, -1):
        wanted = np.linalg.norm(x.numpy(), order, dim)
        np.testing.assert_allclose(torch.linalg.vector_norm(x, order, dim).numpy(), wanted)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")])
def test_matrix_norms(order):
    x = matrix(2, 3, 4)
    wanted = np.linalg.norm(x.numpy(), order, (1, 2))
    np.testing.assert_allclose(torch.linalg.matrix_norm(x, order).numpy(), wanted)


def test_gradient_of_a_norm_at_zero_is_zero():
    for order in (1, 1.5, 2, 3):
        x = torch.zeros(3, requires_grad=True)
        x.norm(order).backward()
        assert x.grad.tolist() == [0, 0, 0]


def test_int_mm():
    a = torch.full((2, 3), 127, dtype=torch.int8)
    b = torch.full((3, 2), 100, dtype=torch.int8)
    assert torch._int_mm(a, b).tolist() == [[38100, 38100], [38100, 38100]]
    with pytest.raises(RuntimeError, match="Expected self dtype to be int8 or uint8"):
        torch._int_mm(a.float(), b)


@pytest.mark.parametrize("shapes", [((5, 4, 0), (0, 3)), ((0, 4, 2), (2, 3)), ((5, 4, 2), (2, 0))])
def test_products_of_stacks_with_a_matrix_may_have_no_elements(shapes):
    a, b = (torch.ones(shape, requires_grad=True) for shape in shapes)
    y = a @ b
    assert y.shape == (*a.shape[:-1], b.shape[-1]) and not y.count_nonzero()
    y.sum().backward()
    assert a.grad.shape == a.shape and b.grad.shape == b.shape and not b.grad.count_nonzero()


def test_a_zero_on_the_diagonal_divides(torch):
    A = torch.tensor([[0.0, 1.0], [0.0, 2.0]])
    X = torch.linalg.solve_triangular(A, torch.ones(2, 1), upper=True)
    assert X.flatten().tolist() == [float("inf"), 0.5]
    X = torch.linalg.solve_triangular(torch.stack([A, A + 1]), torch.ones(2, 2, 1), upper=True)
    assert X[0].flatten().tolist() == [float("inf"), 0.5]
    assert X[1].flatten().tolist() == pytest.approx([1 / 3, 1 / 3])


def test_powers_of_integers_are_int64(torch):
    y = torch.vander(torch.tensor([1, 100], dtype=torch.int16), 4)
    assert y.dtype is torch.int64
    assert y[1].tolist() == [1000000, 10000, 100, 1]
