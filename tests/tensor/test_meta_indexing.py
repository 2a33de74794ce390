"""Operators on meta tensors that once read their zeros as values."""

from __future__ import annotations

import pytest


def meta(torch, *shape, dtype=None):
    return torch.zeros(shape, device="meta", dtype=dtype)


CALLS = [
    (lambda torch, x, i: x[i], (2, 4)),
    (lambda torch, x, i: x[:, i], (4, 2)),
    (lambda torch, x, i: x[i, i], (2,)),
    (lambda torch, x, i: x[i[:, None], i], (2, 2)),
    (lambda torch, x, i: x[None, i[:, None], :], (1, 2, 1, 4)),
    (lambda torch, x, i: x[None].expand(3, 4, 4)[i, :, i], (2, 4)),
    (lambda torch, x, i: torch.linalg.cholesky(x), (4, 4)),
    (lambda torch, x, i: torch.linalg.eig(x)[0], (4,)),
    (lambda torch, x, i: torch.matrix_exp(x), (4, 4)),
    (lambda torch, x, i: x.quantile(0.5, 0), (4,)),
]


@pytest.mark.parametrize(("call", "shape"), CALLS)
def test_shapes(torch, call, shape):
    y = call(torch, meta(torch, 4, 4), meta(torch, 2, dtype=torch.long))
    assert (tuple(y.shape), y.device.type) == (shape, "meta")


def test_masks_are_refused(torch):
    with pytest.raises(NotImplementedError, match="nonzero"):
        meta(torch, 4, 4)[meta(torch, 4, dtype=torch.bool)]


def test_draws_take_no_numbers(torch):
    before = torch.get_rng_state()
    ones = meta(torch, 3)
    for y in (torch.bernoulli(ones), torch.normal(ones, ones), ones.normal_(), ones.uniform_(),
              torch.multinomial(ones, 2), torch.poisson(ones)):
        assert y.device.type == "meta"
    assert torch.equal(torch.get_rng_state(), before)
