"""torch._custom_ops: earlier names of functions now in torch.library, for older libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._custom_op.impl import (
    _check_name, _custom_op_with_schema, _find_custom_op, parse_qualname, validate_namespace,
)
from .library import get_ctx, impl_abstract, infer_schema

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract", "impl_backward",
           "impl_save_for_backward"]


def custom_op(qualname: str, func_or_schema: Any = None) -> Any:
    """Define the operator `namespace::name`: with a schema, or as a decorator of a function whose
    annotations give the schema and whose body is ignored.

    >>> from flambeau import _custom_ops
    >>> _custom_ops.custom_op("docs::half", "(Tensor x) -> Tensor")
    """
    validate_namespace(parse_qualname(qualname)[0])
    if isinstance(func_or_schema, str):
        _custom_op_with_schema(qualname, func_or_schema)
        return None

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        _check_name(qualname, fn)
        _custom_op_with_schema(qualname, infer_schema(fn, mutates_args=()))
        return fn

    return decorate if func_or_schema is None else decorate(func_or_schema)


def _registrar(register: Callable[[Callable], Any], func: Any) -> Any:
    """Register `func` and return it, or return a decorator that does so."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        register(fn)
        return fn

    return decorate if func is None else decorate(func)


def impl(qualname: str, *, device_types: Any = ("cpu", "cuda"), func: Any = None) -> Any:
    """Register an operator's kernel for some device types; a decorator without `func`."""
    operator = _find_custom_op(qualname, also_check_torch_library=True)
    return _registrar(operator.impl(device_types), func)


def impl_save_for_backward(qualname: str, *, func: Any = None) -> Any:
    """Register the function that saves for backward: `func(inputs, output)` gets the arguments as
    a named tuple, and returns what `impl_backward`'s function receives."""
    operator = _find_custom_op(qualname, also_check_torch_library=True)
    return _registrar(operator.impl_save_for_backward(), func)


def impl_backward(
    qualname: str, output_differentiability: list[bool] | None = None, *, func: Any = None
) -> Any:
    """Register the derivative: `func(ctx, saved, *grads)` returns a dict with the gradient of each
    argument that is a tensor or a list of tensors.

    >>> from flambeau import _custom_ops
    >>> @_custom_ops.custom_op("docs::doubled_once")
    ... def doubled_once(x: torch.Tensor) -> torch.Tensor: ...
    >>> _ = _custom_ops.impl("docs::doubled_once", func=lambda x: x * 2)
    >>> _ = _custom_ops.impl_save_for_backward("docs::doubled_once", func=lambda inputs, y: None)
    >>> _ = _custom_ops.impl_backward("docs::doubled_once", func=lambda ctx, saved, g: {"x": g * 2})
    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.ops.docs.doubled_once(x).backward(); x.grad
    tensor([2.])
    """
    operator = _find_custom_op(qualname, also_check_torch_library=True)
    return _registrar(operator.impl_backward(output_differentiability), func)


def _destroy(qualname: str) -> None:
    """Remove an operator of `custom_op`."""
    _find_custom_op(qualname)._destroy()
