"""Writes into wrapper classes with __torch_dispatch__: values, gradients, views in other shapes."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.utils._python_dispatch import return_and_correct_aliasing
from flambeau.utils._pytree import tree_map


class Around(torch.Tensor):
    """Holds a tensor with the same shape and strides."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=inner.device,
            requires_grad=requires_grad)
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def inside(value):
            return value.inner if isinstance(value, cls) else value

        result = func(*tree_map(inside, args), **tree_map(inside, kwargs or {}))
        result = tree_map(lambda v: cls(v) if isinstance(v, torch.Tensor) else v, result)
        return return_and_correct_aliasing(func, args, kwargs or {}, result)


def write_and_differentiate(write, make, read):
    x = make(torch.arange(1.0, 7.0).reshape(3, 2))
    value = make(torch.arange(1.0, 5.0).reshape(2, 2))
    y = x * 2
    write(y, value)
    (y * y * 3).sum().backward()
    gradients = (None if t.grad is None else read(t.grad).tolist() for t in (x, value))
    return read(y).tolist(), *gradients


WRITES = {
    "mask": lambda y, value: y.__setitem__(y > 5, 0),
    "list": lambda y, value: y.__setitem__([0, 2], value),
    "int": lambda y, value: y.__setitem__(1, value[0]),
    "slice": lambda y, value: y.__setitem__(slice(0, 2), value),
    "all": lambda y, value: y.__setitem__(slice(None), value[0]),
    "copy_": lambda y, value: y.copy_(value[0]),
    "fill_": lambda y, value: y.fill_(value[0, 1]),
    "zero_": lambda y, value: y.zero_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_into_a_wrapper_has_the_gradients_of_a_plain_one(name):
    plain = write_and_differentiate(
        WRITES[name], lambda t: t.requires_grad_(), lambda t: t)
    wrapped = write_and_differentiate(
        WRITES[name], lambda t: Around(t, requires_grad=True),
        lambda t: t.inner if isinstance(t, Around) else t)
    assert wrapped == plain


def test_the_old_value_that_a_backward_needs_is_not_lost():
    x = Around(torch.ones(2), requires_grad=True)
    y = x * 3
    z = y * y
    y[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_flatten_of_a_wrapper_copies_where_its_strides_ask_for_it():
    rows = Around(torch.arange(3.0).expand(2, 3))
    assert rows.flatten().inner.tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        rows.view(6)
    columns = Around(torch.ones(2, 3, 4).transpose(1, 2))
    assert columns.view(2, 2, 2, 3).stride() == (12, 2, 1, 4)


def test_an_operator_in_place_returns_the_wrapper_it_wrote_to():
    x = Around(torch.ones(2))
    aten = torch.ops.aten
    assert Around.__torch_dispatch__(aten.add_.Tensor, (), (x, 1), {}) is x
    assert Around.__torch_dispatch__(aten.zero_.default, (), (x,)) is x
    assert Around.__torch_dispatch__(aten.mul.Tensor, (), (x, 1)) is not x
    assert aten.mul.Tensor.__module__ == "torch._ops.aten"
