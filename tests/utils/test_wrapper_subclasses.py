"""What classes around inner tensors use: in-place results, replaced inner tensors."""

import pytest
from flambeau._export.wrappers import mark_subclass_constructor_exportable_experimental
from flambeau.utils._mode_utils import all_same_mode
from flambeau.utils._python_dispatch import return_and_correct_aliasing, transform_subclass

import flambeau as torch
from flambeau.utils import _pytree as pytree


class Boxed(torch.Tensor):
    """A tensor around another."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @mark_subclass_constructor_exportable_experimental
    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return Boxed(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = pytree.tree_map_only(Boxed, lambda x: x.inner, args)
        out = func(*plain, **(kwargs or {}))
        boxed = pytree.tree_map_only(torch.Tensor, Boxed, out)
        return return_and_correct_aliasing(func, args, kwargs, boxed)


def test_an_operator_in_place_returns_its_argument():
    x = Boxed(torch.ones(2))
    assert x.add_(1) is x
    assert x.inner.tolist() == [2, 2]
    y = x * 3
    assert type(y) is Boxed
    assert y.inner.tolist() == [6, 6]
    assert type(x.view(2, 1)) is Boxed


def test_inner_tensors_are_replaced():
    x = Boxed(torch.ones(2))
    doubled = transform_subclass(x, lambda name, t: t * 2)
    assert doubled.inner.tolist() == [2, 2]
    with pytest.raises(AssertionError, match="have shape equal to"):
        transform_subclass(x, lambda name, t: torch.ones(3))


def test_only_constructors_are_marked_and_modes_compared():
    with pytest.raises(RuntimeError, match="which is not supported"):
        mark_subclass_constructor_exportable_experimental(all_same_mode)
    mode = object()
    assert all_same_mode([mode, mode])
    assert not all_same_mode([mode, None])
