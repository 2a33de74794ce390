"""Wrapper subclasses: every operator of theirs reaches `__torch_dispatch__`, in PyTorch's form."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.utils._pytree import tree_map

SEEN: list[tuple] = []


class Wrapper(torch.Tensor):
    """Holds a tensor, and notes what its class is asked to do."""

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        self = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), dtype=elem.dtype, device=elem.device, requires_grad=requires_grad
        )
        self.elem = elem
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        SEEN.append((str(func), args[1:]))
        args, kwargs = tree_map(lambda x: x.elem if isinstance(x, cls) else x, (args, kwargs or {}))
        return tree_map(lambda y: cls(y) if isinstance(y, torch.Tensor) else y,
                        func(*args, **kwargs))


def calls(function):
    """What the class is asked to do by a function."""
    SEEN.clear()
    function()
    return list(SEEN)


@pytest.fixture
def x():
    return Wrapper(torch.arange(12.0).reshape(3, 4))


def test_a_basic_index_is_a_call_for_each_entry(x):
    assert calls(lambda: x[:2]) == [("aten.slice.Tensor", (0, 0, 2, 1))]
    assert calls(lambda: x[1]) == [("aten.select.int", (0, 1))]
    assert calls(lambda: x[..., None, 1]) == [
        ("aten.unsqueeze.default", (1,)), ("aten.select.int", (2, 1))]
    assert torch.equal(x[1:, 2].elem, x.elem[1:, 2])
    assert torch.equal(x.narrow(1, 1, 2).elem, x.elem.narrow(1, 1, 2))


def test_sizes_arrive_as_one_tuple(x):
    assert calls(lambda: x.repeat(2, 1)) == [("aten.repeat.default", ((2, 1),))]
    assert calls(lambda: x.sum().expand(3, 4)) == [
        ("aten.sum.default", ()), ("aten.expand.default", ((3, 4),))]


def test_numbers_are_read_through_the_class(x):
    total = x.sum()
    assert calls(total.item) == [("aten._local_scalar_dense.default", ())]
    assert (total.item(), float(total), bool(total)) == (66.0, 66.0, True)


def test_comparisons_look_at_the_values(x):
    assert torch.allclose(x, x) and torch.equal(x, x)
    assert not torch.allclose(x, x + 1) and not torch.equal(x, x + 1)


def test_derivatives_are_of_the_class():
    x = Wrapper(torch.tensor([1.0, 2.0, 3.0]))
    cube = lambda a: (a * a * a).sum()  # noqa: E731
    jacobian = torch.autograd.functional.jacobian(lambda a: a * a, x)
    hessian = torch.autograd.functional.hessian(cube, x)
    _, product = torch.autograd.functional.hvp(cube, x, Wrapper(torch.ones(3)))
    assert torch.equal(jacobian.elem, torch.diag(2 * x.elem))
    assert torch.equal(hessian.elem, torch.diag(6 * x.elem))
    assert torch.equal(product.elem, 6 * x.elem)


def test_derivative_of_a_part_and_of_a_repeated_sum():
    x = Wrapper(torch.arange(4.0), requires_grad=True)
    x[1:3].exp().sum().backward()
    expected = torch.zeros(4)
    expected[1:3] = torch.arange(4.0)[1:3].exp()
    assert torch.equal(x.grad.elem, expected)
    result = torch.autograd.functional.jacobian(lambda a: a.sum().repeat(2, 2), x)
    assert torch.equal(result.elem, torch.ones(2, 2, 4))
