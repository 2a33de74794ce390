"""Method patches: what a program assigns to an attribute of Tensor (`Tensor.__mul__ = f`).

PyTorch's operators and derivatives are C++, which such an assignment does not reach. Here they are
Python that computes with tensors: they call the library's own method, all others the assigned one.
The compiler intercepts the library's own methods, which assigned functions may still call.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from .generated_code import define

_PACKAGE = __name__.partition(".")[0]
# Packages that stand for PyTorch's C++, and that intercept its functions.
_OPERATORS = tuple(f"{_PACKAGE}.{name}." for name in (
    "autograd", "compiler.capture", "compiler.follow", "native", "ops", "tensor"))
_PROOF = f"{_PACKAGE}.compiler.proof."  # follows Python: it sees what the class stores

_displaced: dict[str, Any] = {}  # the library's attributes that something else replaces
_added: set[str] = set()  # names of attributes that only programs assigned
_assigned: weakref.WeakKeyDictionary[Any, FunctionType] = weakref.WeakKeyDictionary()
_own: weakref.WeakKeyDictionary[Any, FunctionType] = weakref.WeakKeyDictionary()

_SOURCE = """
def choose_by_caller(*args, **kwargs):
    if is_operator(current_frame(1).f_globals.get("__name__", "")):
        return own(*args, **kwargs)
    return assigned(*args, **kwargs)
"""


class PatchableType(type):
    """Metaclass of Tensor and its subclasses: watches assignments to attributes of Tensor."""

    def __setattr__(cls, name: str, value: Any) -> None:
        is_tensor = cls.__base__ is object
        stored = choose_stored(cls, name, value) if is_tensor else value
        type.__setattr__(cls, name, stored)
        if is_tensor and (stored is not value or _is_shown()):
            _show_assigned(cls)

    def __delattr__(cls, name: str) -> None:
        if cls.__base__ is object:
            note_deletion(cls, name)
        type.__delattr__(cls, name)
        if cls.__base__ is object and _is_shown():
            _show_assigned(cls)


def _is_shown() -> bool:
    return "__getattribute__" in vars(PatchableType)


def _show_assigned(cls: type) -> None:
    """Have `Tensor.name` give what was assigned, while Tensor stores functions that choose. The
    lookup costs time, and a proof refuses steps that use it."""
    def get(cls: type, name: str) -> Any:
        return choose_shown(type.__getattribute__(cls, name))

    kind: Any = PatchableType
    stored = vars(cls)
    if any(stored.get(name) in _assigned for name in _displaced
           if stored.get(name).__class__ is FunctionType):
        kind.__getattribute__ = get
    elif _is_shown():
        del kind.__getattribute__


def library_attributes(cls: type) -> Mapping[str, Any]:
    """Return Tensor's attributes as the library defines them, whatever a program assigned."""
    if not _displaced and not _added:
        return vars(cls)
    rest = {name: value for name, value in vars(cls).items() if name not in _added}
    return rest | _displaced


def note_deletion(cls: type, name: str) -> None:
    """Note that a program deletes an attribute of Tensor."""
    if name in _added:
        _added.discard(name)
    elif name in vars(cls):
        _displaced.setdefault(name, vars(cls)[name])


def choose_stored(cls: type, name: str, value: Any, depth: int = 2) -> Any:
    """Return what Tensor stores when a program assigns a value to one of its attributes."""
    if _find_caller(depth + 1).partition(".")[0] == _PACKAGE:
        return value
    if name not in vars(cls) and name not in _displaced or name in _added:
        _added.add(name)
        return value
    own = _displaced.setdefault(name, vars(cls).get(name))
    if value is own:
        del _displaced[name]
        return value
    if value.__class__ is not FunctionType or own.__class__ is not FunctionType:
        return value
    return _define_choice(own, value)


def choose_shown(value: Any, depth: int = 2) -> Any:
    """Return what the reader of a class attribute gets for the function that Tensor stores."""
    if value.__class__ is not FunctionType or value not in _assigned:
        return value
    reader = _find_caller(depth + 1)
    if is_operator(reader):
        return _own[value]
    return value if reader.startswith(_PROOF) else _assigned[value]


def is_operator(module: str) -> bool:
    """Whether the functions of a module are C++ in PyTorch."""
    return module.startswith(_OPERATORS)


def _find_caller(depth: int) -> str:
    name: str = sys._getframe(depth).f_globals.get("__name__", "")
    return name


def _define_choice(own: FunctionType, assigned: FunctionType) -> FunctionType:
    """Return a function that calls one of two. Its code is not the library's, so a proof refuses a
    step that calls it, because it looks at its caller."""
    space: dict[str, Any] = {"own": own, "assigned": assigned, "is_operator": is_operator,
                             "current_frame": sys._getframe}
    define(_SOURCE, "<assigned method>", space)
    choose: Callable = space["choose_by_caller"]
    result: Any = functools.wraps(assigned)(choose)
    _assigned[result], _own[result] = assigned, own
    return result
