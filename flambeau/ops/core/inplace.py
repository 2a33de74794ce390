"""In-place twins: write an operator's result over its first argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.inplace import bump, check_writable, prepare_write, rebase
from ...autograd.mode import MODE
from ...autograd.saved.plan import INPUT
from ...autograd.saved.values import SavedOutput
from ...autograd.tape import record_binary, record_number, requires
from ...native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.overlap import check_no_internal_overlap, check_operands
from ...tensor.promotion import check_cast
from ...tensor.tensor import Tensor
from ..documentation import source_listing
from ..documentation.lazy_docstring import own_text
from ..native.row_copies import fill
from .arguments.legacy_order import OLD_ORDERED, in_order
from .errors import answer_failed, build_tensor_error, restate_for_method
from .short_write import generate_short_write, has_short_write, write_by_kernel

if TYPE_CHECKING:
    from .operator import Operator

# Operands of pointwise operators; Python's operators (`+`) leave others to their classes.
OPERANDS = (Tensor, bool, int, float, complex, np.generic)


def inplace_twin(operator: Operator, function: Callable) -> Callable:
    """Return `name_`, which writes the operator's result over its first argument and returns it.

    Its `by_function` does the same by a call of the operator's function, which recorders see.
    """
    write_short: Callable[..., bool] | None = None
    is_short = has_short_write(operator)

    def twin(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        nonlocal write_short
        if is_short:
            if write_short is None:
                write_short = generate_short_write(operator)
            try:
                if write_short(self, *args, **kwargs):
                    bump(self)
                    return self
            except (TypeError, AttributeError, RuntimeWarning, FloatingPointError):
                pass  # nothing was written: the general path raises PyTorch's error
        return write_general(self, args, kwargs)

    write_general = _create_general_write(operator, function, twin)
    body = operator.body
    functools.update_wrapper(twin, body, assigned=("__module__",), updated=())
    twin.__doc__ = f"`{operator.name}` in place. {own_text(body).partition(chr(10))[0]}"
    source_listing.attach(twin, operator, lambda: _create_signature(operator))
    twin.__name__ = twin.__qualname__ = operator.name + "_"
    attributes: Any = twin
    attributes.operator = operator
    attributes.by_function = lambda self, *args, **kwargs: write_general(
        self, args, kwargs, may_run_kernel=False)
    return twin


def _create_general_write(operator: Operator, function: Callable, twin: Callable) -> Callable:
    """Return the in-place function for all arguments, recorded if one of them requires grad."""
    name, name_ = operator.name, operator.name + "_"
    old_ordered = name in OLD_ORDERED
    pointwise = operator.pointwise and len(operator.tensor_names) > 1

    def write_general(
        self: Tensor, args: tuple, kwargs: dict[str, Any], may_run_kernel: bool = True
    ) -> Tensor:
        try:
            recorded = MODE.grad and (
                check_writable(self, name_) or _requires(args)
                or (kwargs and _requires(kwargs.values()))
            )
            _refuse_array(operator, args)
            if old_ordered and len(args) > 2:
                return in_order(twin, name_, (self, *args), kwargs)
            array = self._array
            if pointwise:
                check_operands(array, args)
            if recorded and (operator.differentiable or operator.flat_in_place):
                return _record(operator, function, self, args, kwargs)
            if array.size <= MAX_NUMPY_POINTWISE_ELEMENTS or not may_run_kernel \
                    or not write_by_kernel(operator, array, args, kwargs):
                write(self, function(self, *args, **kwargs)._array, name)
            bump(self)
        except AttributeError as error:
            return answer_failed(error, name_, twin, (self, *args), kwargs)
        except TypeError as error:
            restate_for_method(error, operator, args, kwargs)
            raise
        return self

    return write_general


def _refuse_array(operator: Operator, args: tuple) -> None:
    if args and args[0].__class__ is np.ndarray:
        raise build_tensor_error(operator.name.lstrip("_") + "_", operator.names[1], 0, args[0])


def make_python_in_place(twin: Callable) -> Callable:
    """Return `input op= other`. For unknown operands it returns NotImplemented: Python then
    computes `input op other` and rebinds the name."""

    def function(self: Tensor, other: Any) -> Any:
        try:
            return twin(self, other)
        except TypeError:
            if isinstance(other, OPERANDS):
                raise
            return NotImplemented

    return functools.update_wrapper(function, twin)


def _create_signature(operator: Operator) -> inspect.Signature:
    """Return the operator's signature with `self` first, without annotations."""
    first, *rest = (p.replace(annotation=inspect.Parameter.empty) for p in operator.parameters)
    return inspect.Signature([first.replace(name="self"), *rest])


def _requires(arguments: Iterable[Any]) -> bool:
    """Whether an argument of a call requires grad."""
    for x in arguments:  # noqa: SIM110 faster than `any`
        if isinstance(x, Tensor) and x._tracked and requires(x):
            return True
    return False


def write(target: Tensor, y: np.ndarray, name: str) -> None:
    """Copy a result into a tensor's window; RuntimeError if shape or dtype do not fit."""
    array = target._array
    if y.shape != array.shape:
        raise RuntimeError(
            f"output with shape {list(array.shape)} doesn't match the broadcast shape "
            f"{list(y.shape)}"
        )
    same = y.dtype is array.dtype or y.dtype == array.dtype
    if not same:
        check_cast(FROM_NUMPY[y.dtype], target.dtype)
        if array.dtype.kind != "c" and y.dtype.kind == "c":
            y = y.real
    check_no_internal_overlap(array, name + "_")
    if 0 in array.strides and array.size:  # tolerated if only few elements are written
        np.copyto(array, y, casting="unsafe", where=y != array)
    elif same:
        fill(array, y)
    else:
        np.copyto(array, y, casting="unsafe")


def _record(
    operator: Operator, function: Callable, self: Tensor, args: tuple, kwargs: dict
) -> Tensor:
    keep = reads_self(operator)
    old = prepare_write(self, keep)
    y = function(old, *args, **kwargs)
    if operator.flat_in_place:
        other = args[0] if args else kwargs[operator.names[1]]
        if isinstance(other, Tensor):
            record_binary(operator, y, old, other)
        else:
            record_number(operator, y, (old, other), 0)
    write(self, y._array, operator.name)
    bump(self)
    adopt(self, y)
    return self


def reads_self(operator: Operator) -> bool:
    """Return whether the operator's derivative reads its first argument."""
    vjps = [operator.joint] if operator.joint is not None else list(operator.vjps.values())
    for vjp in vjps:
        for name in vjp.__code__.co_varnames[1 : vjp.__code__.co_argcount]:
            if operator.source_of(name) == (INPUT, 0):
                return True
    return False


def adopt(self: Tensor, y: Tensor) -> None:
    """Give `self`, which `y` was written into, the history of `y`."""
    node, counter = y._node, self._counter
    if node is None:
        return
    assert counter is not None
    for saved in node.shown().saved or ():
        if saved.__class__ is SavedOutput and saved.array is y._array:
            saved.array, saved.counter = self._array, counter
            saved.version = counter.value
    rebase(self, node)


def assign(self: Tensor, y: Tensor, name: str) -> Tensor:
    """Write the recorded value `y` into `self`; for composite in-place operators."""
    check_writable(self, name)
    write(self, y._array, name.rstrip("_"))
    bump(self)
    adopt(self, y)
    return self


def overwrite(self: Tensor, name: str, function: Callable, *args: Any, **kwargs: Any) -> Tensor:
    """Write function(self, ...) into `self`; use a copy if the tape may keep the old value."""
    recorded = MODE.grad and (check_writable(self, name) or _requires(args)
                              or _requires(kwargs.values()))
    old = prepare_write(self, True) if recorded else self
    return assign(self, function(old, *args, **kwargs), name)
