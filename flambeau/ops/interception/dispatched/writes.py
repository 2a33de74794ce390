"""In-place writes under `__torch_dispatch__`: the handler mutates the wrapper's contents, and the
tape records it like any in-place operator. Also calls that PyTorch passes by keyword."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....autograd.inplace import bump, check_writable, prepare_write, rebase
from ....autograd.mode import MODE
from ....autograd.tape import record, requires
from ....tensor.deepcopy import alias_with_attributes
from ....tensor.tensor import Tensor, wrap
from ...core.aten import aten
from ...core.inplace import reads_self
from ...core.operator import OPERATORS, Operator
from .. import operator_arguments

Call = Callable[..., Any]  # (overload, args, kwargs) -> result


def is_recorded(name: str, self: Tensor, arguments: tuple) -> bool:
    """Return whether the tape has to record a write; raise as autograd does if it is forbidden."""
    if not MODE.grad:
        return False
    recorded = check_writable(self, name)
    others = [a for a in arguments if isinstance(a, Tensor) and a is not self]
    if not recorded and not any(map(requires, others)):
        return False
    node = self._node
    owner = None if node is None or isinstance(node, Tensor) else node.shown().operator
    if type(self) is not Tensor and owner is not None and owner.kind.name == "VIEW":
        raise NotImplementedError(
            f"{name} on a view of a class with __torch_dispatch__ that requires gradients is not "
            "implemented in flambeau"
        )
    return True


def write_in_place(
    call: Call, operator: Operator, func: Any, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Dispatch an operator in place, and give its first argument the new value's history."""
    self = args[0]
    if not operator.differentiable or not isinstance(self, Tensor) \
            or not is_recorded(operator.name + "_", self, (*args[1:], *kwargs.values())):
        call(func, args, kwargs)
        bump(self)
        return self
    old = _copy_old_value(call, self, reads_self(operator))
    call(func, args, kwargs)
    values = [old if a is self else a
              for a in operator_arguments.bind_arguments(operator, args, kwargs, False)]
    return _give_history(self, operator, tuple(values))


def write_values(
    call: Call, self: Tensor, name: str, func: Any, args: tuple, kwargs: dict[str, Any],
    values: Tensor, positions: Any = None,
) -> Tensor:
    """Dispatch a write of `values` over all of `self`, or at positions, and record it if need be.

    `func`, `args` and `kwargs` are the call in aten, `values` is what a gradient passes to.
    """
    if not is_recorded(name, self, (values,)):
        call(func, args, kwargs)
        bump(self)
        return self
    old = _copy_old_value(call, self, False)
    call(func, args, kwargs)
    if positions is None:
        return _give_history(self, OPERATORS["_overwrite"], (old, values))
    return _give_history(self, OPERATORS["_index_put"], (old, values, positions, False))


def _give_history(self: Tensor, operator: Operator, values: tuple) -> Tensor:
    """Count a write of `self`, which becomes the result of an operator on `values`."""
    bump(self)
    written = self._alias(None if type(self) is Tensor else type(self))
    written.__dict__.update(self.__dict__)
    record(operator, written, values)
    if written._node is not None:
        rebase(self, written._node)
    return self


def _copy_old_value(call: Call, self: Tensor, keep_value: bool) -> Tensor:
    """Return a tensor with the history of `self` before the write; copy the value if needed."""
    if type(self) is Tensor:
        return prepare_write(self, keep_value)
    if keep_value:
        with_grad, MODE.grad = MODE.grad, False
        try:
            old = call(aten.clone.default, (self,))
        finally:
            MODE.grad = with_grad
    else:
        old = alias_with_attributes(self)
    old._requires_grad, old._node, old._tracked = self._requires_grad, self._node, self._tracked
    return old


def overwrite(
    call: Call, name: str, func: Any, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """Dispatch copy_, fill_, zero_ or a draw in place; a gradient passes to the value copied."""
    self, value = args[0], args[1] if name in ("copy_", "fill_") else 0
    values = value if isinstance(value, Tensor) else wrap(np.zeros((), self._array.dtype))
    return write_values(call, self, name, func, args, kwargs, values)


def convert(call: Call, x: Tensor, dtype: Any, memory_format: Any) -> Any:
    """Dispatch a conversion as `aten._to_copy`, with the options that PyTorch names."""
    from ....tensor.dtypes import FROM_NUMPY
    from ....tensor.layout import preserve_format

    options = {} if dtype is None or dtype == x._array.dtype else {"dtype": FROM_NUMPY[dtype]}
    if memory_format is not preserve_format and memory_format is not None:
        options["memory_format"] = memory_format
    return call(aten._to_copy.default, (x,), options)


def spread(call: Call, name: str, x: Tensor, dim: Any, keepdim: bool, correction: float) -> Any:
    """Dispatch `std` or `var` as its overload `correction`."""
    options: dict[str, Any] = {} if correction == 1 else {"correction": correction}
    if keepdim:
        options["keepdim"] = True
    axes = () if dim is None else ([dim] if isinstance(dim, int) else list(dim),)
    return call(getattr(aten, name).correction, (x, *axes), options)
