"""Gradients of gather for many cotangents at once, as a vectorized Jacobian asks for them."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("shape", "index", "dim"), [
    ((3, 4), [[0, 1], [2, 0]], 0), ((3, 4), [[0, 1], [2, 0]], -1), ((4,), [1, 1, 3], 0),
    ((4,), 2, 0), ((), 0, 0), ((), [0, 0], 0),
])
def test_a_vectorized_jacobian_of_gather(torch, shape, index, dim):
    x = torch.arange(1.0, 13.0)[: torch.Size(shape).numel()].reshape(shape)
    index = torch.tensor(index)

    def gathered(x):
        return torch.gather(x, dim, index)

    jacobian = torch.autograd.functional.jacobian
    assert torch.equal(jacobian(gathered, x, vectorize=True), jacobian(gathered, x))


def test_gather_of_examples_and_indices(torch):
    x, index = torch.randn(5, 3, 4), torch.randint(3, (5, 2, 4))

    def gradient(x, index):
        return torch.func.grad(lambda x: torch.gather(x, 0, index).square().sum())(x)

    expected = torch.stack([gradient(*pair) for pair in zip(x, index, strict=True)])
    torch.testing.assert_close(torch.func.vmap(gradient)(x, index), expected)


@pytest.mark.parametrize(("shape", "index"), [((3,), 2), ((), [0, 0]), ((), 0), ((3,), [2, 0])])
def test_tangents_of_examples_meet_one_index(torch, shape, index):
    x, tangents, index = torch.randn(shape), torch.randn(2, *shape), torch.tensor(index)

    def push(tangent):
        return torch.func.jvp(lambda x: torch.gather(x, 0, index), (x,), (tangent,))[1]

    expected = torch.stack([torch.gather(t, 0, index) for t in tangents])
    assert torch.equal(torch.func.vmap(push)(tangents), expected)
