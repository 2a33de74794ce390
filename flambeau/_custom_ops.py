"""torch._custom_ops: earlier names of functions now in torch.library, for older libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import library
from .library import get_ctx, impl_abstract, infer_schema
from .tensor.absent import make_absent_getattr

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract", "infer_schema"]

__getattr__ = make_absent_getattr(__name__, ("impl_backward", "impl_save_for_backward"))


def custom_op(qualname: str, func_or_schema: Any = None) -> Any:
    """Define the operator `namespace::name`: with a schema, or as a decorator of a function whose
    annotations give the schema and whose body is ignored.

    >>> from flambeau import _custom_ops
    >>> _custom_ops.custom_op("docs::half", "(Tensor x) -> Tensor")
    """
    if isinstance(func_or_schema, str):
        library.define(qualname, func_or_schema)
        return None

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        library.define(qualname, infer_schema(fn, mutates_args=()))
        return fn

    return decorate if func_or_schema is None else decorate(func_or_schema)


def impl(qualname: str, *, device_types: Any = ("cpu", "cuda"), func: Any = None) -> Any:
    """Register an operator's kernel for some device types; a decorator without `func`."""
    return library.impl(qualname, device_types, func)
