"""Guard the contents of containers, arrays and modules that live outside the step."""

from __future__ import annotations

import types
from collections import OrderedDict, deque
from typing import Any

import numpy as np

from ...native.target.compile_costs import MAX_GUARDED_ARRAY_BYTES, MAX_GUARDS
from ...nn.module import Module
from ...tensor.tensor import Tensor
from .facts import Facts
from .guards import Test
from .provenance import Aspect, Kind, NotProvedError, Provenance, is_plain
from .state.module_state import declare_module

_SEQUENCES = (list, tuple, deque)
_MAPPINGS = (dict, OrderedDict)
_SETS = (set, frozenset)


def guard_content(facts: Facts, p: Provenance, only_length: bool = False) -> None:
    """Guard the contents of an object that the step, or C code on its behalf, iterates over."""
    x = p.value
    if p.kind is Kind.ARGUMENT and isinstance(x, np.ndarray):
        raise NotProvedError("it reads elements of a NumPy array argument")
    if p.kind is not Kind.OUTSIDE:
        guard_if_container(facts, *(p.items or ()))
        return
    if isinstance(x, np.ndarray):
        _guard_array(facts, p)
    elif isinstance(x, Module):
        declare_module(facts, x)
    elif x.__class__ in (*_SEQUENCES, *_MAPPINGS, *_SETS) or _is_plain_tuple(x):
        _guard_container(facts, p, only_length)
    elif not (callable(x) and _is_iterated_in_python(type(x))) and (
        not _is_opaque_truth(x, only_length)
    ):
        raise NotProvedError(f"it reads the contents of a {type(x).__name__}")
    else:
        facts.guard_special_methods(type(x))


def guard_if_container(facts: Facts, *operands: Provenance) -> None:
    """Guard outside containers before unwatched code reads their parts."""
    for p in operands:
        guard_if_container(facts, *(p.items or ()))
        if p.kind is Kind.OUTSIDE and p.value.__class__ in (*_SEQUENCES, *_MAPPINGS, *_SETS):
            guard_content(facts, p)


def _is_plain_tuple(x: Any) -> bool:
    return isinstance(x, tuple) and type(x).__iter__ is tuple.__iter__


def _is_iterated_in_python(kind: type) -> bool:
    """Whether a class has no contents that C code reads unseen, as a subclass of list has."""
    methods = (getattr(kind, name, None) for name in ("__iter__", "__len__", "__getitem__"))
    return all(m is None or isinstance(m, types.FunctionType) for m in methods)


def _is_opaque_truth(x: Any, only_length: bool) -> bool:
    return only_length and not hasattr(type(x), "__len__") and not hasattr(type(x), "__bool__")


def _guard_array(facts: Facts, p: Provenance) -> None:
    facts.look()  # a tensor may share its memory
    if p.value.nbytes > MAX_GUARDED_ARRAY_BYTES:
        raise NotProvedError(
            f"it reads a NumPy array of {p.value.nbytes} bytes, too many to compare on each call"
        )
    if p.value.dtype.hasobject:
        raise NotProvedError("it reads a NumPy array of objects")
    key = (id(p.value), Aspect.BYTES)
    if key not in facts.reads:
        facts.reads[key] = p
        array = p.value
        facts.proof.arrays.append(array)
        facts.guard(facts.path_of(p), Test.BYTES, (array.tobytes(), array.shape, array.dtype))


def _guard_container(facts: Facts, p: Provenance, only_length: bool) -> None:
    x, path = p.value, facts.path_of(p)
    key = (id(x), Aspect.LENGTH)
    if key in facts.writes:
        raise NotProvedError("it reads a list that it appends to")
    if key not in facts.reads:
        facts.reads[key] = p
        facts.guard(path, Test.LENGTH, len(x))
    if only_length or (id(x), Aspect.CONTENT) in facts.reads:
        return
    facts.reads[id(x), Aspect.CONTENT] = p
    if len(facts.proof.guards) > MAX_GUARDS:
        raise NotProvedError(f"it iterates over more than {MAX_GUARDS} container entries")
    if isinstance(x, _SETS):
        if not all(map(is_plain, x)):
            raise NotProvedError("it iterates over a set of objects")
        facts.proof.constants["tuple"] = tuple
        facts.guard(f"tuple({path})", Test.VALUE, tuple(x))  # equal sets may differ in order
        return
    if isinstance(x, dict):
        if not all(map(is_plain, x)):
            raise NotProvedError("it iterates over a dictionary whose keys are objects")
        if x:
            facts.proof.constants["tuple"] = tuple
            facts.guard(f"tuple({path})", Test.VALUE, tuple(x))
    for at, value in x.items() if isinstance(x, dict) else enumerate(x):
        part = facts.read((id(x), at), f"{path}[{at!r}]", value)
        facts.need(part)
        guard_if_container(facts, part)


# Methods that compare tensors by identity or hash, as sets, dicts and `in` do.
SEARCHING_METHODS = frozenset((
    "index", "count", "remove", "get", "setdefault", "pop", "add", "discard", "__contains__",
    "issubset", "union", "intersection", "difference", "update",
))
_SEARCHED = (list, tuple, dict, set, frozenset)


def refuse_tensors(*operands: Provenance) -> None:
    """Refuse to search containers for tensors: no guard covers tensors' identity there."""
    if any(map(_holds_tensor, operands)):
        raise NotProvedError("it tests whether a container holds a tensor")


def _holds_tensor(p: Provenance) -> bool:
    if p.kind is Kind.TENSOR or any(map(_holds_tensor, p.items or ())):
        return True
    parts = p.parts.values() if isinstance(p.parts, dict) else p.parts or ()
    return any(map(_holds_tensor, parts)) or _has_tensor(p.value)


def _has_tensor(x: Any) -> bool:
    if isinstance(x, dict):
        return any(map(_has_tensor, x.keys()))
    if isinstance(x, _SEARCHED):
        return any(map(_has_tensor, x))
    return isinstance(x, Tensor)
