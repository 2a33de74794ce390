"""`out=`: write results to existing tensors, resized if they are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.inplace import bump
from ...autograd.mode import MODE
from ...autograd.tape import requires
from ...native.foundation.user_frames import warn
from ...tensor.exposed_memory import check_resizable
from ...tensor.layout import empty_strided_array, is_dense, get_strides
from ...tensor.overlap import Overlap, check_no_internal_overlap, check_operands
from ...tensor.tensor import Tensor
from ..native.row_copies import fill
from .out_dtypes import check_out_dtype
from .return_types import get_written_type

if TYPE_CHECKING:
    from .operator import Operator


def write_out(operator: Operator, result: Any, out: Any, operands: tuple = ()) -> Any:
    """Write an operator's results into `out`, and return `out`.

    `operands`: the tensors that the operator read. Raises RuntimeError if one overlaps the output
    in a way that PyTorch refuses.
    """
    return write_result(operator.name, result, out, operands, operator.overlap)


def write_result(
    name: str, result: Any, out: Any, operands: tuple = (), overlap: Overlap = Overlap.ANY
) -> Any:
    """`write_out` for a function composed of several operators."""
    if isinstance(result, Tensor):
        _check_overlap(out, operands, overlap)
        _write_tensor(name, result, out)
        return out
    if isinstance(out, Tensor) or len(out) != len(result):
        raise TypeError(f"{name}(): argument 'out' must be tuple of {len(result)} Tensors")
    for number, (y, target) in enumerate(zip(result, out, strict=True)):
        _check_overlap(target, operands, overlap)
        _write_tensor(name, y, target, number)
    return get_written_type(type(result))(out) if hasattr(type(result), "n_fields") else out


def _check_overlap(out: Any, operands: tuple, overlap: Overlap) -> None:
    if not isinstance(out, Tensor):
        return
    check_no_internal_overlap(out._array)
    if overlap is not Overlap.ANY:
        check_operands(out._array, operands, partial=overlap is Overlap.SAME)


def _write_tensor(name: str, y: Tensor, target: Any, number: int = 0) -> None:
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    if MODE.grad and (y._requires_grad or (target._tracked and requires(target))):
        raise RuntimeError(
            f"{name.strip('_')}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    check_out_dtype(name, y.dtype, target.dtype, number)
    write_into(target, y._array)


def write_into(target: Tensor, result: np.ndarray, warns: bool = True) -> None:
    """Write an array over a tensor, with a cast; resize the tensor if the shape differs."""
    if target._array.shape != result.shape:
        _resize(target, result, warns)
    array = target._array
    if array.dtype != result.dtype:
        with np.errstate(all="ignore"):
            np.copyto(array, result, casting="unsafe")
    else:
        fill(array, result)
    bump(target)


def _resize(target: Tensor, result: np.ndarray, warns: bool) -> None:
    """Give the tensor new memory with the shape and the strides of a result."""
    shape = result.shape
    if target._array.size and warns:
        warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which does not match the required output shape "
            f"{list(shape)}. This behavior is deprecated, and in a future PyTorch release outputs "
            "will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
        )
    check_resizable(target._array, int(np.prod(shape, dtype=np.int64)))
    strides = None if result.flags.c_contiguous and 1 not in shape else get_strides(result)
    target._array = empty_strided_array(shape, strides, target._array.dtype) \
        if strides is not None and is_dense(shape, strides) else \
        np.empty(shape, target._array.dtype)
