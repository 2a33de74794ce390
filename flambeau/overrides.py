"""torch.overrides: tensor-like objects. Operators of flambeau do not call `__torch_function__`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .tensor import Tensor

__all__ = ["handle_torch_function", "has_torch_function", "is_tensor_like",
           "is_tensor_method_or_property", "resolve_name"]  # fmt: skip


def _overrides(value: Any) -> bool:
    function = getattr(type(value), "__torch_function__", None)
    return function is not None and getattr(function, "__func__", function) is not _DEFAULT


_DEFAULT = vars(Tensor)["__torch_function__"].__func__


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or its type has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any has a `__torch_function__` of its own."""
    return any(_overrides(a) for a in relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the first `__torch_function__` that does not pass gives; TypeError if all pass."""
    overriding = [a for a in relevant_args if _overrides(a)]
    kinds = tuple({type(a): None for a in overriding})
    for value in overriding:
        found = type(value).__torch_function__(public_api, kinds, args, kwargs)
        if found is not NotImplemented:
            return found
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(f"no implementation found for '{name}' on types that implement "
                    f"__torch_function__: {[k.__name__ for k in kinds]}")  # fmt: skip


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is one of Tensor's, or the getter of one of its properties."""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


def resolve_name(f: Any) -> str | None:
    """A function's public name."""
    module, name = getattr(f, "__module__", None), getattr(f, "__qualname__", None)
    return None if name is None else name if module is None else f"{module}.{name}"
