"""torch.jit: what marks code for TorchScript is accepted; scripting and tracing are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

__all__ = [
    "Attribute", "Final", "annotate", "export", "ignore", "is_scripting", "is_tracing",
    "isinstance", "load", "optimized_execution", "save", "script", "script_if_tracing",
    "script_method", "trace", "trace_module", "unused",
]  # fmt: skip

_isinstance = isinstance


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.jit.{name}: flambeau has no TorchScript")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "NotImplementedError: flambeau has no TorchScript."
    return refuse


script, trace, trace_module = _refused("script"), _refused("trace"), _refused("trace_module")
save, load, script_method = _refused("save"), _refused("load"), _refused("script_method")
optimized_execution = _refused("optimized_execution")


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function as it is; with arguments, a decorator that gives it as it is."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: Any) -> Any:
    """The function as it is."""
    return fn


def export(fn: Any) -> Any:
    """The function as it is."""
    return fn


def script_if_tracing(fn: Any) -> Any:
    """The function as it is: nothing is traced."""
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value as it is."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`, where List[int] and its like stand for their containers."""
    targets = target_type if _isinstance(target_type, tuple) else (target_type,)
    return any(_isinstance(obj, getattr(t, "__origin__", t)) for t in targets)


class Attribute:
    """A value with its TorchScript type."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type
