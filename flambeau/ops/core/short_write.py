"""Short writes: the common case of an in-place pointwise operator, generated from its declaration.

The tensors are dense in memory, of the target's floating dtype, and nothing is to be recorded. A
short write checks just that, at the cost of a few attribute reads, computes, and copies the
result into the target's array. It answers False, with nothing written, in all other cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.mode import MODE
from ...native.foundation.generated_code import SourceBuilder
from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS, MAX_NUMPY_POINTWISE_ELEMENTS
from ...tensor.dtypes import FLOAT32, FLOATS
from ...tensor.layout import find_dense_order
from ...tensor.overlap import check_no_overlap
from ...tensor.tensor import Tensor
from ...tensor.windows.lazy_window import LazyWindow
from ..native.pointwise import try_kernel_with, write_straight
from .autocast import AUTOCAST
from .operator import Operator, Promotion
from .scalar_conversion import ORDINARY, number

INT64 = np.dtype(np.int64)
ShortWrite = Callable[..., bool]


def has_short_write(operator: Operator) -> bool:
    """Return whether a short write can be generated: the body takes arrays of one dtype."""
    return (
        operator.pointwise and operator.promotion is not Promotion.NONE
        and not operator.kernel and not operator.sequence_positions
        and all(p.kind is not p.VAR_POSITIONAL for p in operator.parameters)
        and "None" not in str([operator.parameters[i].annotation
                               for i in operator.tensor_positions])
    )


def generate_short_write(operator: Operator) -> ShortWrite:
    """Compile an operator's short write. It takes the operator's arguments."""
    source = SourceBuilder({
        "Tensor": Tensor, "ndarray": np.ndarray, "copyto": np.copyto, "MODE": MODE,
        "AUTOCAST": AUTOCAST, "check_no_overlap": check_no_overlap, "number": number,
        "finish": _finish, "write_by_kernel": write_by_kernel, "ORDINARY": ORDINARY,
        "write_straight": write_straight, "try_kernel_with": try_kernel_with,
        "operator": operator, "body": operator.ufunc or operator.body, "INT64": INT64,
        "FLOAT32": FLOAT32,
        "DTYPES": FLOATS | {INT64} if operator.ufunc in (np.add, np.subtract, np.multiply)
        else FLOATS,
        "MAX_ELEMENTS": MAX_NUMPY_POINTWISE_ELEMENTS if operator.ufunc
        else MAX_NUMPY_COSTLY_ELEMENTS,
    })
    target, *operands = operator.tensor_names
    _write_tests(source, operator, target)
    for name in operands:
        _read_operand(source, operator, name)
    if operator.ufunc:
        _write_ufunc(source, operands)
    else:
        _write_body(source, operator)
    source.add("return True")
    return source.define(f"short_write({_list_parameters(source, operator)})",
                         f"<flambeau short write {operator.name}_>")[1]


def _list_parameters(source: SourceBuilder, operator: Operator) -> str:
    parts: list[str] = []
    for p in operator.parameters:
        if p.kind is p.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(p.name if p.default is p.empty else
                     f"{p.name}={source.name(p.default, 'default_')}")
    return ", ".join(parts)


def _write_tests(source: SourceBuilder, operator: Operator, target: str) -> None:
    """Test the target: a small array without history, each element at an address of its own."""
    if operator.autocast is not None:
        source.add("if AUTOCAST.count:", "    return False")
    source.add(
        f"array_ = {target}._array", "dtype_ = array_.dtype", "grad_ = MODE.grad",
        f"if dtype_ is not FLOAT32 and dtype_ not in DTYPES or array_.__class__ is not ndarray "
        f"or {target}._stamp.__class__ is str or grad_ and ({target}._tracked or "
        f"{target}._base is not None and {target}._base._requires_grad) "
        "or 0 in array_.strides:", "    return False")
    source.add("is_large_ = array_.size > MAX_ELEMENTS")


def _read_operand(source: SourceBuilder, operator: Operator, name: str) -> None:
    """Read an operand's array, of the target's dtype and, if small, of its shape; or a number."""
    may_be_number = _takes_number(operator, name)
    source.add(f"if isinstance({name}, Tensor):",
               f"    {name}_ = {name}._array",
               f"    if {name}_.dtype is not dtype_ or {name}_.__class__ is not ndarray "
               f"or grad_ and {name}._tracked "
               f"or not is_large_ and {name}_.shape != array_.shape and {name}_.ndim:",
               "        return False",
               f"    if array_.base is not None or {name}_.base is not None:",
               f"        check_no_overlap(array_, {name}_)")
    if may_be_number:
        value = f"number({name}, dtype_)" if operator.ufunc else name
        source.add(f"elif ({name}.__class__ is int or {name}.__class__ is float "
                   f"and dtype_ is not INT64) and -ORDINARY < {name} < ORDINARY:",
                   f"    {name}_ = {value}")
    source.add("else:", "    return False")


def _takes_number(operator: Operator, name: str) -> bool:
    """Return whether a number may stand in an operand's place."""
    return "Number" in str(operator.parameters[operator.names.index(name)].annotation)


def _write_ufunc(source: SourceBuilder, operands: list[str]) -> None:
    """Run a ufunc into the target, or a kernel if the target is large."""
    others = "".join(f", {name}_" for name in operands)
    stretched = "".join(f" or {name}_.ndim and {name}_.shape != array_.shape" for name in operands)
    source.add(
        "if is_large_:",
        f"    if write_straight(body, array_{others}) or "
        f"write_by_kernel(operator, array_, ({''.join(f'{n}, ' for n in operands)}), {{}}):",
        "        return True",
        f"    if not array_.flags.c_contiguous{stretched}:",  # a kernel with a new array is faster
        "        return False",
        "try:", f"    body(array_{others}, out=array_)",
        "except (RuntimeWarning, FloatingPointError):",
        f"    finish(body, array_, (array_{others}))")


def _write_body(source: SourceBuilder, operator: Operator) -> None:
    """Run a kernel if the target is large, else the body, and copy its result if it fits."""
    target, *operands = operator.tensor_names
    others = [p for p in operator.parameters if p.name not in operator.tensor_names]
    plain = "".join(f"{p.name}, " for p in others if p.kind is not p.KEYWORD_ONLY)
    named = ", ".join(f"'{p.name}': {p.name}" for p in others if p.kind is p.KEYWORD_ONLY)
    source.add("if is_large_:",
               "    return array_.flags.c_contiguous and try_kernel_with(body, (array_, "
               f"{''.join(f'{name}_, ' for name in operands)}), ({plain}), {{{named}}}, array_) "
               "is not None")
    values = []
    for p in operator.parameters:
        value = "array_" if p.name == target else \
            f"{p.name}_" if p.name in operator.tensor_names else p.name
        values.append(f"{p.name}={value}" if p.kind is p.KEYWORD_ONLY else value)
    source.add(f"result_ = body({', '.join(values)})",
               "if result_.shape != array_.shape or result_.dtype is not dtype_:",
               "    return False", "copyto(array_, result_)")


def _finish(ufunc: np.ufunc, array: np.ndarray, operands: tuple) -> None:
    """Complete a write after a NumPy warning that the user's filters made an error.

    NumPy raises it after writing, but drops the copy it wrote to if an argument overlaps the
    result.
    """
    for a in operands:
        if isinstance(a, np.ndarray) and np.may_share_memory(a, array, 1):  # type: ignore[arg-type]
            same = a.ctypes.data == array.ctypes.data and a.strides == array.strides
            if not same:
                with np.errstate(all="ignore"):
                    ufunc(*operands, out=array)
                return


def write_by_kernel(operator: Operator, array: np.ndarray, args: tuple, kwargs: dict) -> bool:
    """Run a pointwise operator in place by a kernel; return False if there is none."""
    if operator.kind.name != "POINTWISE" or array.__class__ is not np.ndarray \
            or not array.flags.writeable or (order := find_dense_order(array)) is None:
        return False
    rest = operator.parameters[1:]
    values = {p.name: p.default for p in rest}
    if len(args) > len(rest) or not values.keys() >= kwargs.keys():
        return False
    values.update(zip(values, args, strict=False))
    values.update(kwargs)
    operands: list[Any] = [array]
    for name in operator.tensor_names[1:]:
        value = values.pop(name)
        if value.__class__ in (int, float) and not _takes_number(operator, name):
            return False
        if operator.ufunc is not None and value.__class__ in (int, float):
            value = np.asarray(value, array.dtype)
        operands.append(value._array if isinstance(value, Tensor) else value)
        if operands[-1].__class__ is np.ndarray and not _is_apart(operands[-1], array):
            return False
    options = {p.name: values.pop(p.name) for p in rest
               if p.kind is p.KEYWORD_ONLY and p.name in values}
    if not array.flags.c_contiguous:  # view it in memory order
        if any(
            a.__class__ is np.ndarray and a.ndim and a.strides != array.strides for a in operands
        ):
            return False
        array = array.transpose(order)
        operands = [
            a.transpose(order) if a.__class__ is np.ndarray and a.ndim else a for a in operands
        ]
    body = operator.ufunc or operator.body
    return try_kernel_with(body, tuple(operands), tuple(values.values()), options,
                           array) is not None


def _is_apart(operand: Any, array: Any) -> bool:
    """Whether an operand is exactly the written array or does not overlap it."""
    if operand.__class__ is LazyWindow or array.__class__ is LazyWindow:
        return False
    same = operand.ctypes.data == array.ctypes.data and operand.shape == array.shape \
        and operand.strides == array.strides
    return same or not np.may_share_memory(operand, array)
