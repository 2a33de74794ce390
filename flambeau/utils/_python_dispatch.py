"""torch.utils._python_dispatch: modes that intercept operators below autograd."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Self

from ..ops.interception import torch_dispatch
from ..tensor import Tensor
from ..tensor.meta import share_meta_memory

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing", "transform_subclass",
]


class TorchDispatchMode:
    """A context that passes operators to the mode's `__torch_dispatch__` as torch.ops.aten's.

    The innermost mode handles a call and is disabled meanwhile. Composite operators appear as the
    operators they are made of; backward is intercepted too.

    >>> from flambeau.utils._python_dispatch import TorchDispatchMode
    >>> class Log(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2)
    >>> with Log():
    ...     y = x * 2
    aten.mul.Tensor
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the result of calling `func`."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        torch_dispatch.enter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        torch_dispatch.leave()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Construct an instance (deprecated name)."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return False."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that calls each operator unchanged."""

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call the operator."""
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Return whether a mode is active."""
    return bool(torch_dispatch.get_program_modes())


def _get_current_dispatch_mode() -> Any:
    modes = torch_dispatch.get_program_modes()
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    return torch_dispatch.get_program_modes()


def _push_mode(mode: Any) -> None:
    torch_dispatch.enter(mode)


def _pop_mode(k: Any = None) -> Any:
    return torch_dispatch.leave()


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    modes = [_pop_mode() for _ in torch_dispatch.get_program_modes()]
    try:
        yield modes
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Return whether a tensor defines `__tensor_flatten__` and `__tensor_unflatten__`."""
    return isinstance(t, Tensor) and type(t) is not Tensor and \
        hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Return `out`, with the aliasing that the operator's schema promises.

    A wrapper's `__torch_dispatch__` ends with it. Where `func` writes to an argument, as in
    `x.add_(1)` and with `out=`, the argument takes the result's place. Where `func` is a view, the
    resulting wrapper gets the storage of the argument's.

    >>> from flambeau.utils._python_dispatch import return_and_correct_aliasing
    >>> x, inner = torch.ones(2), torch.ones(2)
    >>> func = torch.ops.aten.add_.Tensor
    >>> return_and_correct_aliasing(func, (x, 1), {}, func(inner, 1)) is x
    True
    """
    schema = getattr(func, "_schema", None)
    if schema is None:  # overloads with out=, and operators of flambeau's own
        return (kwargs or {}).get("out", out)
    if all(result.alias_info is None for result in schema.returns):
        return out
    names = [argument.name for argument in schema.arguments]
    arguments = {**dict(zip(names, args, strict=False)), **(kwargs or {})}

    def corrected(result: Any, value: Any) -> Any:
        if result.alias_info is None:
            return value
        letters = result.alias_info.before_set
        argument = next(argument for argument in schema.arguments if argument.alias_info
                        and argument.alias_info.before_set & letters)
        source = arguments[argument.name]
        if result.is_written:
            return source
        for view in value if isinstance(value, (list, tuple)) else (value,):
            _share_storage(source, view)
        return value

    if len(schema.returns) == 1:
        return corrected(schema.returns[0], out)
    return type(out)(map(corrected, schema.returns, out))


def _share_storage(source: Any, view: Any) -> None:
    """Give a wrapper the storage of another one. Other tensors have theirs."""
    if all(isinstance(x, Tensor) and "_flambeau_device" in x.__dict__ for x in (source, view)):
        view._array = share_meta_memory(view._array, source._array)


def transform_subclass(
    t: Any, callback: Callable[[str, Tensor], Tensor], outer_size: Any = None,
    outer_stride: Any = None,
) -> Any:
    """Return a wrapper subclass with each inner tensor replaced.

    Arguments:
        t: a tensor whose class has `__tensor_flatten__` and `__tensor_unflatten__`.
        callback: called with an inner tensor's name and value, returns the new one.
        outer_size, outer_stride: the result's shape and strides; those of `t` if None.
    """
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    result = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    for label, expected, actual in (("shape", tuple(outer_size), tuple(result.shape)),
                                   ("strides", tuple(outer_stride), result.stride())):
        if expected != actual:
            raise AssertionError(f"Expected return value from {type(t)}__tensor_unflatten__() to "
                                 f"have {label} equal to {expected}, but got: {actual}")
    return result
