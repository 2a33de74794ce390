"""Guard what the library reads of its own objects that live outside the step: attributes of
gradient scalers, distributions, transforms and the like."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from ....nn.module import Module
from ....optim.lr_scheduler import LRScheduler
from ....optim.optimizer import Optimizer
from ....tensor.random.generator import Generator
from ....tensor.tensor import Tensor
from ..declarations import is_in_library
from ..facts import Facts
from ..guards import Test, is_same_value
from ..provenance import Aspect, Kind, Provenance, is_plain

_GUARDED_OTHERWISE = (Tensor, Module, Optimizer, LRScheduler, Generator, type, types.ModuleType)
_CONTAINERS = (list, tuple, dict, set, frozenset)
_LIBRARIES = ("flambeau", "torch")


def declare_object(facts: Facts, x: Any, function: Any = None) -> None:
    """Guard the attributes of an object of the library, and of those it refers to, that a method of
    the library uses; all attributes if the library gets the object in another way."""
    if not _is_guarded_here(x):
        return
    method = getattr(function, "__code__", None)
    is_method = method is not None and method.co_varnames[:1] == ("self",)
    key = (id(x), Aspect.OBJECT, method if is_method else None)
    if key in facts.reads:
        return
    facts.reads[key] = Provenance(Kind.PLAIN)
    facts.classes.add(type(x))
    own = vars(x)
    kind: Any = type(x)
    names = own.keys() & _list_names(kind, function) if is_method else own.keys()
    state = ObjectState(own, sorted(names))
    facts.guard(f"the attributes of a {type(x).__name__}", Test.STATE, state)
    for part in _list_parts([own[name] for name in state.names]):
        if isinstance(part, Tensor):
            facts.tensors.note(part)
        else:
            declare_object(facts, part)


class ObjectState:
    """A snapshot of some of an object's attributes: plain values, the identity of other objects,
    and both for what its containers hold."""

    def __init__(self, space: dict[str, Any], names: list[str]) -> None:
        self.space, self.names = space, names
        self.before = [_freeze(space[name]) for name in names]

    def is_same(self) -> bool:
        """Whether nothing has changed since the snapshot."""
        space = self.space
        return all(name in space and _is_same(_freeze(space[name]), before)
                   for name, before in zip(self.names, self.before, strict=True))


def _is_guarded_here(x: Any) -> bool:
    if isinstance(x, _GUARDED_OTHERWISE) or is_plain(x) or not hasattr(x, "__dict__"):
        return False
    return not isinstance(x, types.FunctionType) and any(
        base.__module__.partition(".")[0] in _LIBRARIES for base in type(x).__mro__)


def _freeze(value: Any) -> Any:
    """Return a value, with copies of the containers in it."""
    if isinstance(value, dict):
        return dict, [*value], [*map(_freeze, value.values())]
    if value.__class__ in _CONTAINERS:
        return value.__class__, [*map(_freeze, value)]
    return value


def _is_same(now: Any, before: Any) -> bool:
    if before.__class__ in (list, tuple):
        return (now.__class__ is before.__class__ and len(now) == len(before)
                and all(map(_is_same, now, before)))
    return now is before or is_plain(before) and is_same_value(now, before)


def _list_parts(values: Any) -> Iterator[Any]:
    """Yield the objects in some values, those in containers included."""
    for value in values:
        if isinstance(value, _CONTAINERS):
            yield from _list_parts(value.values() if isinstance(value, dict) else value)
        elif not is_plain(value):
            yield value


@functools.cache
def _list_names(kind: Any, function: Any) -> frozenset[str]:
    """Return the names that a method uses, and those of what it calls in the library."""
    names: set[str] = set()
    functions: list[Any] = [function]
    seen = {function}
    while functions:
        current = functions.pop()
        used = {*_list_used(current.__code__)}
        names |= used
        for name in used:
            for value in (getattr(kind, name, None), current.__globals__.get(name)):
                inner: Any = getattr(value, "fget", getattr(value, "func", value))
                if not isinstance(inner, types.FunctionType) or inner in seen:
                    continue
                if is_in_library(inner.__code__):
                    seen.add(inner)
                    functions.append(inner)
    return frozenset(names)


def _list_used(code: types.CodeType) -> Iterator[str]:
    """Yield the names and the text that code and the functions in it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _list_used(constant)
        elif isinstance(constant, str):
            yield constant
