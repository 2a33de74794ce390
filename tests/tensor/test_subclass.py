"""Subclasses of Tensor are constructed as in Python: their `__new__`, then their `__init__`."""

from __future__ import annotations

import pytest

import flambeau as torch


class Tagged(torch.Tensor):
    def __init__(self, data: list[float], tag: str = "none") -> None:
        self.tag = tag


class Named(torch.Tensor):
    def __new__(cls, data, name):
        tensor = super().__new__(cls, data)
        tensor.label = name
        return tensor


class Inherits(Named):
    def __init__(self, data, name):
        self.upper = name.upper()


def test_init_runs_after_the_values_are_there():
    x = Tagged([1.0, 2.0])
    assert type(x) is Tagged
    assert (x.tolist(), x.tag) == ([1.0, 2.0], "none")


def test_new_is_inherited():
    x = Inherits([1.0], "a")
    assert type(x) is Inherits
    assert (x.tolist(), x.label, x.upper) == ([1.0], "a", "A")


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError):
        torch.Tensor([1.0], name="a")


def test_a_class_with_slots(torch):
    """Objects of it are laid out otherwise than tensors."""

    class Marked(torch.Tensor):
        __slots__ = ("mark",)

    x = torch.ones(2, requires_grad=True)
    marked = (x * 2).as_subclass(Marked)
    marked.mark = 3
    assert type(marked) is type(marked + 1) is Marked
    marked.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_factories_after_a_wrapper_are_the_classs_own(torch):
    tree_map = torch.utils._pytree.tree_map

    class Wrapped(torch.Tensor):
        def __new__(cls, inner):
            wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)
            wrapper.inner = inner
            return wrapper

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            unwrap = lambda x: x.inner if isinstance(x, cls) else x  # noqa: E731
            result = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
            return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result)

    x = Wrapped(torch.rand(3))
    tensors = (x.new_zeros(2), x.new_full((2,), 5.0), torch.zeros_like(x), torch.randn_like(x))
    assert all(type(y) is Wrapped for y in tensors)
    assert tensors[1].inner.tolist() == [5.0, 5.0]
