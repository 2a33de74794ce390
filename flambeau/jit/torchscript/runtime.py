"""Runtime of translated TorchScript: checked access to attributes, elements, methods and objects.

Archive code can access no attributes of Python objects except those listed here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any

from ...futures import Future
from ...tensor.devices import device
from ...tensor.tensor import Tensor
from . import operators
from .definitions import ClassType, Function
from .objects import ScriptObject
from .script_module import LoadedModule

__all__ = ["FUNCTIONS", "ScriptError"]

_READABLE: dict[type, tuple[str, str]] = {device: ("type", "index"), Enum: ("name", "value")}
_OBJECTS = (ScriptObject, LoadedModule)
_TENSOR_ATTRIBUTES: dict[str, Callable[[Tensor], Any]] = {
    **{name: operators.find(f"prim.{name}") for name in (
        "dtype", "device", "layout", "requires_grad", "is_cuda", "is_sparse", "data", "grad",
        "shape", "ndim", "itemsize", "is_meta", "is_quantized", "is_leaf")},
    **{name: attrgetter(name) for name in ("T", "mT", "H", "mH", "real", "imag")},
}


class ScriptError(Exception):
    """torch.jit.Error: raised by TorchScript code."""


def _get(value: Any, name: str) -> Any:
    if isinstance(value, _OBJECTS):
        if name in value._flambeau_type.methods:  # passed to fork
            return partial(value._flambeau_type.methods[name], value)
        return value._flambeau_get(name)
    if isinstance(value, Tensor):
        read = _TENSOR_ATTRIBUTES.get(name)
        if read is not None:
            return read(value)
    elif isinstance(value, tuple) and name in getattr(type(value), "_fields", ()):
        return value[type(value)._fields.index(name)]  # type: ignore[attr-defined]
    elif any(isinstance(value, kind) and name in names for kind, names in _READABLE.items()):
        return getattr(value, name)
    raise AttributeError(f"'{_format(value)}' object has no attribute or method '{name}'")


def _has(value: Any, name: str) -> bool:
    try:
        _get(value, name)
    except AttributeError:
        return isinstance(value, _OBJECTS) and name in value._flambeau_type.methods
    return True


def _set(value: Any, name: str, new: Any) -> None:
    if isinstance(value, _OBJECTS):
        value._flambeau_set(name, new)
        return
    if isinstance(value, Tensor) and name == "requires_grad":
        value.requires_grad_(bool(new))
        return
    raise AttributeError(f"the attribute {name!r} of '{_format(value)}' cannot be set")


def _find_method(value: Any, name: str) -> Any:
    """Return a method defined by the archive, or an operator bound to the value."""
    if isinstance(value, _OBJECTS):
        methods = value._flambeau_type.methods
        if name in methods:
            return partial(methods[name], value)
        return _check_callable(value._flambeau_get(name))
    if isinstance(value, Enum) or callable(value):
        raise AttributeError(f"'{_format(value)}' object has no attribute or method '{name}'")
    return partial(operators.find(name), value)


def _check_callable(value: Any) -> Any:
    """Return a callable of the archive. Raise TypeError for other values."""
    if isinstance(value, (Function, ClassType, LoadedModule)) or isinstance(
            value, partial) and isinstance(value.func, Function):
        return value
    if isinstance(value, ScriptObject) and "__call__" in value._flambeau_type.methods:
        return partial(value._flambeau_type.methods["__call__"], value)
    raise TypeError(f"'{_format(value)}' object is not callable")


def _new(kind: Any) -> Any:
    if not isinstance(kind, ClassType):
        raise TypeError(f"'{_format(kind)}' is no class")
    return kind.new()


_SEQUENCES = (Tensor, list, tuple, dict, str)


def _getitem(value: Any, key: Any) -> Any:
    if isinstance(value, _SEQUENCES):
        return value[key]
    method = _find_method(value, "__getitem__") if isinstance(value, ScriptObject) else None
    if method is None:
        raise TypeError(f"'{_format(value)}' object is not subscriptable")
    return method(key)


def _setitem(value: Any, key: Any, new: Any) -> None:
    if isinstance(value, (Tensor, list, dict)):
        value[key] = new
    elif isinstance(value, ScriptObject):
        _find_method(value, "__setitem__")(key, new)
    else:
        raise TypeError(f"'{_format(value)}' object does not support item assignment")


def _delete(value: Any, key: Any) -> None:
    if isinstance(value, (list, dict)):
        del value[key]
    elif isinstance(value, ScriptObject):
        _find_method(value, "__delitem__")(key)
    else:
        raise TypeError(f"'{_format(value)}' object does not support item deletion")


def _iterate(value: Any) -> Any:
    if isinstance(value, (*_SEQUENCES, range, zip, enumerate)):
        return value
    raise TypeError(f"'{_format(value)}' object is not iterable")


class _Entered:
    """Context manager that calls the __enter__ and __exit__ of a TorchScript object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> Any:
        return _find_method(self.value, "__enter__")()

    def __exit__(self, *parts: Any) -> None:
        _find_method(self.value, "__exit__")(*parts)


def _context(value: Any) -> Any:
    if isinstance(value, ScriptObject):
        return _Entered(value)
    raise TypeError(f"'{_format(value)}' object is no context manager")


def _raise(message: Any = "", kind: Any = None) -> None:
    """Raise torch.jit.Error, as PyTorch does whatever the exception type."""
    name = str(kind).rpartition(".")[2] if kind else ""
    raise ScriptError(f"{name}: {message}" if name else str(message))


def _format(value: Any) -> str:
    return getattr(getattr(value, "_flambeau_type", None), "qualified_name", type(value).__name__)


def _fork(function: Any, *args: Any) -> Any:
    future: Any = Future()
    future.set_result(_check_callable(function)(*args))
    return future


operators.TABLE.update({
    "prim.RaiseException": _raise, "fork": _fork, "prim.fork": _fork, "__getitem__": _getitem,
    "prim.TupleIndex": _getitem, "_set_item": _setitem, "Delete": _delete,
})

# Globals of translated functions. Local names have another prefix (expressions.py), so that no
# TorchScript name can reach these.
FUNCTIONS: dict[str, Any] = {
    "g_get": _get, "g_set": _set, "g_has": _has, "g_method": _find_method,
    "g_invocable": _check_callable,
    "g_new": _new, "g_getitem": _getitem, "g_setitem": _setitem, "g_iterate": _iterate,
    "g_context": _context, "g_raise": _raise, "g_slice": slice,
}
