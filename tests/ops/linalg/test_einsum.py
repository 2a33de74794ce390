"""einsum against NumPy's, over random equations, and its refusals."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

LETTERS = "abcdE"


def equation(rng):
    """A random equation, with operands that fit it."""
    lengths = dict(zip(LETTERS, rng.integers(1, 4, len(LETTERS)), strict=True))
    terms, operands = [], []
    for _ in range(rng.integers(1, 5)):
        term = "".join(rng.choice(list(LETTERS), rng.integers(0, 4)))
        terms.append(term)
        operands.append(rng.normal(size=[lengths[c] for c in term]))
    known = sorted(set("".join(terms)))
    output = rng.permutation(known)[: rng.integers(0, len(known) + 1)]
    return ",".join(terms) + "->" + "".join(output), operands


def test_random_equations_agree_with_numpy():
    rng = np.random.default_rng(5)
    for _ in range(150):
        text, operands = equation(rng)
        y = torch.einsum(text, *map(torch.from_numpy, operands))
        np.testing.assert_allclose(y.numpy(), np.einsum(text, *operands), atol=1e-12, err_msg=text)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [("...ij,...jk->...ik", ((2, 3, 4), (4, 5))), ("b...,b...->b...", ((2, 3, 4), (2, 3, 4))),
     ("i...->...", ((3, 2),)), ("ij,jk", ((2, 3), (3, 4)))],
)
def test_ellipsis_and_implicit_outputs(text, shapes):
    rng = np.random.default_rng(0)
    operands = [rng.normal(size=s) for s in shapes]
    y = torch.einsum(text, *map(torch.from_numpy, operands))
    np.testing.assert_allclose(y.numpy(), np.einsum(text, *operands))


def test_an_ellipsis_left_out_of_the_output_is_summed_over():
    x = torch.randn(2, 3, 4)
    assert torch.allclose(torch.einsum("b...,b...->b", x, x), (x * x).sum((1, 2)))


def test_lists_of_subscripts():
    x, y = torch.randn(2, 3), torch.randn(3, 4)
    assert torch.equal(torch.einsum(x, [0, 1], y, [1, 2], [2, 0]), torch.einsum("ij,jk->ki", x, y))


def test_axes_of_length_one_broadcast():
    x, y = torch.randn(2, 1), torch.randn(3, 4)
    wanted = (x.expand(2, 3) @ y).numpy()
    np.testing.assert_allclose(torch.einsum("ij,jk->ik", x, y).numpy(), wanted, rtol=1e-5)


def test_gradients_of_three_operands():
    x, y, z = (torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def chain(x, y, z):
        return torch.einsum("ij,jk,kk->i", x, y, z)

    assert torch.autograd.gradcheck(chain, (x, y, z))
    assert torch.autograd.gradgradcheck(chain, (x, y, z))


@pytest.mark.parametrize(
    ("text", "words"),
    [("ij->ijk", "output subscript k does not appear"), ("ij->ii", "appears more than once"),
     ("ijk", r"number of subscripts in the equation \(3\) does not match"),
     ("1j", "invalid subscript given at index 0"), ("i.j", "not part of any ellipsis"),
     ("ij,j", "fewer operands"), ("ii", "repeated for operand 0 but the sizes don't match")],
)
def test_refusals(text, words):
    with pytest.raises(RuntimeError, match=words):
        torch.einsum(text, torch.zeros(2, 3))


def test_needs_operands():
    with pytest.raises(ValueError, match="must specify the equation string"):
        torch.einsum("i")


def test_products_are_contiguous_in_the_order_of_the_result(torch):
    x, y = torch.ones(2, 3, 4), torch.ones(3, 4, 5)
    assert torch.einsum("abc,bcd->da", x, y).stride() == (2, 1)
    assert torch.einsum("ij,jk->ki", x[0], torch.ones(4, 6)).stride() == (3, 1)
    assert torch.einsum("cb,cadb->cba", torch.ones(2, 3), torch.ones(2, 4, 5, 3)).stride() == (
        12, 4, 1)
