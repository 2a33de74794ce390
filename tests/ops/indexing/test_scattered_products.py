"""Second derivatives of scattered products: through factors that are zero."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

INDEX = torch.tensor([0, 0, 1])


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("scatter", [torch.scatter_reduce, torch.index_reduce])
@pytest.mark.parametrize("input, src", [
    ((1.0, 2.0), (0.0, 3.0, 2.0)), ((0.0, 2.0), (3.0, 3.0, 2.0)), ((0.0, 2.0), (0.0, 3.0, 0.0)),
])
def test_one_factor_is_zero(scatter, include_self, input, src):
    def product(a, b):
        return scatter(a, 0, INDEX, b, "prod", include_self=include_self)

    operands = leaf(*input), leaf(*src)
    assert gradcheck(product, operands) and gradgradcheck(product, operands)


def test_two_zeros_at_one_place_have_no_second_derivative():
    x, src = leaf(1.0), leaf(0.0, 0.0)
    y = torch.scatter_reduce(x, 0, INDEX[:2], src, "prod")
    g = torch.autograd.grad(y, (x, src), create_graph=True)
    assert [part.tolist() for part in g] == [[0.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match="Double backward is unsupported for src when >1 zeros"):
        g[1].sum().backward()
