"""Filters of guards, and other names of torch.compiler that have nothing to change here.

PyTorch takes filters as `options={"guard_filter_fn": ...}`, to leave guards out. flambeau accepts
the option and keeps all guards: a compiled step does what its Python does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "cudagraph_mark_step_begin", "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe",
    "nested_compile_region", "set_enable_guard_collectives", "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph",
]


def keep_portable_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Keep guards on tensors, shapes and global settings.

    >>> torch.compile(torch.sin, options={
    ...     "guard_filter_fn": torch.compiler.keep_portable_guards_unsafe})(torch.zeros(1))
    tensor([0.])
    """
    return [g.guard_type in ("GLOBAL_STATE", "SHAPE_ENV")
            or (g.guard_type == "TENSOR_MATCH" and not g.is_global) for g in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Leave out guards on PyTorch's own modules.

    >>> torch.compile(torch.sin, options={
    ...     "guard_filter_fn": torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe,
    ... })(torch.zeros(1))
    tensor([0.])
    """
    return [not g.orig_guard.source.is_unspecialized_builtin_nn_module() for g in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Leave out guards on modules.

    >>> torch.compile(torch.sin, options={
    ...     "guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe,
    ... })(torch.zeros(1))
    tensor([0.])
    """
    return [not g.orig_guard.source.is_unspecialized_nn_module() for g in guard_entries]


def keep_tensor_guards_unsafe(
    guard_entries: Sequence[Any], keep_parameters: bool = False
) -> list[bool]:
    """Keep guards on tensors only; those on parameters if `keep_parameters`.

    >>> torch.compile(torch.sin, options={
    ...     "guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe})(torch.zeros(1))
    tensor([0.])
    """
    from ..nn.parameter import Parameter

    return [g.guard_type == "TENSOR_MATCH"
            and (keep_parameters or not isinstance(g.value, Parameter)) for g in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Leave out guards on globals.

    >>> torch.compile(torch.sin, options={
    ...     "guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe})(torch.zeros(1))
    tensor([0.])
    """
    return [not g.is_global for g in guard_entries]


def skip_all_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Leave out all guards.

    >>> torch.compiler.skip_all_guards_unsafe(["shape", "dtype"])
    [False, False]
    """
    return [False for _ in guard_entries]


def set_enable_guard_collectives(enabled: bool) -> None:
    """Accepted: processes compile independently of each other.

    >>> torch.compiler.set_enable_guard_collectives(True)
    """


def cudagraph_mark_step_begin() -> None:
    """Accepted: results of programs are never overwritten by the next call.

    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def nested_compile_region(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """The function as it is: repeated layers share kernels in any case.

    >>> torch.compiler.nested_compile_region(abs) is abs
    True
    """
    return (lambda function: function) if fn is None else fn


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that returns the substitute: C functions need none, since their calls run.

    Raises TypeError if either is not callable.

    >>> import operator
    >>> @torch.compiler.substitute_in_graph(operator.indexOf)
    ... def index_of(a, b, /):
    ...     return a.index(b)
    >>> index_of([4, 5], 5)
    1
    """
    def check(function: Any) -> None:
        if not callable(function):
            raise TypeError("substitute_in_graph expects a function but got "
                            f"{type(function)!r}")

    check(original_fn)

    def decorate(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
        check(traceable_fn)
        return traceable_fn

    return decorate
