"""torch._assert, torch._check and their kin: conditions that a program states in its own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..native.foundation.public_names import class_of
from ..tensor import dtypes
from ..tensor.devices import device as _device
from ..tensor.dtypes import dtype as dtype_class
from ..tensor.layout import layout as layout_class
from ..tensor.symbolic_length import SymBool
from ..tensor.tensor import Tensor

_UNSAID = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, "
    "please report an enhancement request to PyTorch.)"
)


def _assert(condition: Any, message: str) -> None:
    """Python's assert statement as a function, which a class can override."""
    kind = type(condition)
    if kind is not Tensor and hasattr(kind, "__torch_function__"):
        kind.__torch_function__(_assert, (kind,), (condition, message), {})
        return
    assert condition, message


def _assert_async(condition: Tensor, message: str | None = None) -> None:
    """RuntimeError unless a tensor's only element is true."""
    if not condition._array.size:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if condition._array.size > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    if not condition.item():
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


def _assert_tensor_metadata(
    a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None,
    layout: Any = None,
) -> None:
    """RuntimeError unless a tensor has the shape, strides, dtype, device and layout asked for.

    >>> torch._assert_tensor_metadata(torch.zeros(2), size=[2], dtype=torch.float32)
    """
    place = None if device is None else _device(device)
    sizes, strides = (None if value is None else tuple(value) for value in (size, stride))
    for name, expected, actual in (
        ("sizes", sizes, tuple(a.shape)), ("strides", strides, a.stride()),
        ("dtype", dtype, a.dtype), ("device", place, a.device), ("layout", layout, a.layout),
    ):
        if expected is None or expected == actual:
            continue
        raise RuntimeError(f"Tensor {name} mismatch! Expected: {_describe(expected, True)}, Got: "
                           f"{_describe(actual, False)}")


def _describe(value: Any, expected: bool) -> str:
    """Return a property as PyTorch's C++ prints it: an expected dtype by its C++ name."""
    if isinstance(value, dtype_class):
        names = _SCALAR_TYPES if expected else _C_TYPES
        return names.get(str(value), str(value).removeprefix("torch."))
    if isinstance(value, layout_class):
        return {"torch.sparse_coo": "Sparse"}.get(
            str(value), str(value).removeprefix("torch.").title().replace("_", ""))
    return str(list(value)) if isinstance(value, (tuple, list)) else str(value)


_SCALAR_TYPES = {
    "torch.float32": "Float", "torch.float64": "Double", "torch.float16": "Half",
    "torch.bfloat16": "BFloat16", "torch.int64": "Long", "torch.int32": "Int",
    "torch.int16": "Short", "torch.int8": "Char", "torch.uint8": "Byte", "torch.bool": "Bool",
    "torch.complex64": "ComplexFloat", "torch.complex128": "ComplexDouble",
}
_C_TYPES = {
    "torch.float32": "float", "torch.float64": "double", "torch.float16": "c10::Half",
    "torch.bfloat16": "c10::BFloat16", "torch.int64": "long int", "torch.int32": "int",
    "torch.int16": "short int", "torch.int8": "signed char", "torch.uint8": "unsigned char",
    "torch.complex64": "c10::complex<float>", "torch.complex128": "c10::complex<double>",
}


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None
                ) -> None:
    """Raise `error_type` with what `message` gives, unless `cond` is True."""
    if isinstance(cond, SymBool) and error_type is RuntimeError:
        cond.require(message)  # a condition in a program that is exported
        return
    if cond.__class__ is not bool:
        if isinstance(cond, Tensor):
            raise TypeError("cond must be a bool, but got a Tensor. For tensor conditions, use "
                            "torch._check_tensor_all() to assert that all elements are true."
                            )
        raise TypeError(f"cond must be a bool, but got {class_of(cond)}")
    if cond:
        return
    if message is None:
        raise error_type(_UNSAID)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError unless `cond` is True."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """IndexError unless `cond` is True."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """ValueError unless `cond` is True."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """TypeError unless `cond` is True."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """NotImplementedError unless `cond` is True."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Callable[[], Any] | None = None, *, max: Any = None) -> None:
    """RuntimeError unless `i` can be a size."""
    for cond in (i >= 0, max is None or i <= max):
        _check(cond if isinstance(cond, SymBool) else bool(cond), message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None
) -> None:
    """Raise `error_type` unless all elements of a tensor are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {class_of(cond)}")
    if cond.dtype != dtypes.bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError unless all elements of a tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _shape_as_tensor(input: Tensor) -> Tensor:
    """A tensor's shape, as a tensor of integers."""
    return ops.tensor(list(input.shape))


def _is_all_true(input: Tensor) -> Tensor:
    """Whether all elements of a bool tensor are True."""
    return input.all()


ops.PUBLIC["aten"]["_assert_tensor_metadata"] = _assert_tensor_metadata
