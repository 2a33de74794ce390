"""as_strided: derivatives of first and second order, also of a whole batch at once."""

from __future__ import annotations

import pytest

CASES = {  # what the input becomes first; size, strides and offset of the window
    "overlapping windows": (lambda x: x, (3, 3), (1, 1), 0),
    "one element": (lambda x: x, (3, 3, 3), (0, 0, 0), 4),
    "of an expanded input": (lambda x: x.expand(5, 5), (5, 5), (0, 1), 0),
    "across an expanded input": (lambda x: x.expand(5, 5), (4, 2), (1, 0), 1),
    "of rows": (lambda x: x[:4].view(2, 2), (2, 1), (1, 1), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name, torch):
    prepare, *window = CASES[name]
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def f(x):
        return prepare(x).as_strided(*window)

    assert torch.autograd.gradcheck(f, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (x,), check_batched_grad=True)
