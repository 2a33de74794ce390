"""apply_, map_ and map2_: a Python function called for each element, in place. Slow, by nature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.inplace import bump
from ...autograd.tape import requires
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ..core.operator import publish


def _call(name: str, self: Tensor, others: tuple[Tensor, ...], callable: Callable) -> Tensor:
    for tensor in (self, *others):
        if requires(tensor):
            raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use "
                               f"var.detach().{name}() instead.")
    for other in others:
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {legacy_name(self.dtype)}, but got "
                            f"{legacy_name(other.dtype)}")
    array = self._array
    operands = [other.expand(array.shape)._array for other in others]
    for index in np.ndindex(array.shape):
        result = callable(array[index].item(), *(b[index].item() for b in operands))
        if not hasattr(result, "__float__") and not isinstance(result, complex):
            raise TypeError(f"must be real number, not {type(result).__name__}")
        array[index] = result
    bump(self)
    return self


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by callable(element).

    >>> torch.tensor([1., 2.]).apply_(lambda x: x + 1)
    tensor([2., 3.])
    """
    return _call("apply_", self, (), callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by callable(element, element of the other tensor).

    >>> torch.tensor([1., 2.]).map_(torch.tensor([3., 4.]), lambda a, b: a * b)
    tensor([3., 8.])
    """
    return _call("map_", self, (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by callable(element, element of x, element of y).

    >>> x = torch.tensor([1., 2.])
    >>> x.map2_(x, x, lambda a, b, c: a + b + c)
    tensor([3., 6.])
    """
    return _call("map2_", self, (x, y), callable)


for _function in (apply_, map_, map2_):
    publish(_function, (_function.__name__,), ("Tensor",))
