"""torch._assert, torch._check and their kin: conditions that a program states in its own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..native.foundation.public_names import class_of
from .. import ops
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
    if not condition.item():
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None
                ) -> None:
    """Raise `error_type` with what `message` gives, unless `cond` is True."""
    if isinstance(cond, SymBool) and error_type is RuntimeError:
        cond.state(message)  # a condition in a program that is exported
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
