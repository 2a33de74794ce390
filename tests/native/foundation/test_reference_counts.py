"""Whether somebody else holds an object is told from its reference count, on each CPython."""

from __future__ import annotations

import sys

import flambeau as torch
from flambeau.native.foundation.reference_counts import (
    ARGUMENT_REFERENCES, PARAMETER_REFERENCES,
)


def test_a_gradient_that_a_hook_holds_is_not_the_leafs_own() -> None:
    seen = []
    x = torch.ones(3, requires_grad=True)
    x.register_hook(seen.append)
    (x * 2).backward(torch.ones(3))
    x.grad.add_(5)
    assert seen[0].tolist() == [2, 2, 2]


def test_two_leaves_and_the_caller_share_no_gradient() -> None:
    x, y, g = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), torch.ones(3)
    (x + y).backward(g)
    x.grad.zero_()
    assert y.grad.tolist() == g.tolist() == [1, 1, 1]


def test_a_gradient_that_nobody_else_holds_is_not_copied() -> None:
    addresses = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            result = g * 2
            addresses.append(result.data_ptr())
            return result

    x = torch.ones(3, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.data_ptr() == addresses[0]


def test_the_constants_are_what_this_version_counts() -> None:
    assert {ARGUMENT_REFERENCES, PARAMETER_REFERENCES} <= {0, 1}
    assert (ARGUMENT_REFERENCES == 0) == (sys.version_info >= (3, 14))
