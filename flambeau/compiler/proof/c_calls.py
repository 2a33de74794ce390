"""Calls of C functions: accept only pure ones and known methods of Python's containers."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from ..trace.host_numbers import Place, combine_call
from .attributes import has_attribute, load_attribute
from .contents import guard_content, guard_if_container
from .contents import SEARCHING_METHODS, refuse_tensors
from .declarations import is_in_standard_library, needs_receiver
from .effects import CHANGES_ARGUMENT, advance_count, is_count, store
from .facts import Facts
from .guards import Test
from .numbers.decisions import call_of_numbers, call_of_reads
from .printing import make_text
from .provenance import UNKNOWN, Aspect, Kind, NotProvedError, Provenance, is_plain
from .purity import (
    CHOOSING, NUMBER_FUNCTIONS, OF_STRUCTURE, PURE_TYPES, READING_METHODS, VALUE_TYPES,
    WRITING_METHODS, is_numpy_of_numbers, is_pure,
)
from .shadow_frame import CallState, Runs, ShadowFrame
from .stores import AppendedEntries

_C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_C_FUNCTIONS = (types.BuiltinFunctionType, types.MethodWrapperType, *_C_METHODS)
_BY_NAME = (getattr, hasattr, setattr)
_OF_CLASS = (isinstance, callable)
_FORMAT = vars(str)["format"]


def is_c_function(x: Any) -> bool:
    """Whether calling `x` runs C code."""
    return isinstance(x, _C_FUNCTIONS)


def check_callback(p: Provenance) -> None:
    """Refuse to pass a C function to C code: a C-to-C call cannot be watched."""
    x = p.value
    if p.code is not None or (x is UNKNOWN and p.kind is not Kind.METHOD) or is_plain(x):
        return
    if p.kind is not Kind.METHOD and not callable(x):
        return
    if isinstance(x, types.MethodType):
        x = x.__func__
    if is_pure(x) or (isinstance(x, type) and x in PURE_TYPES):
        return
    if isinstance(x, types.FunctionType) and needs_receiver(x):
        raise NotProvedError(f"it passes {x.__qualname__} to code that is not watched")
    if isinstance(x, types.FunctionType) and not is_in_standard_library(x.__code__):
        return
    is_object = isinstance(x, (type, Module, Tensor)) or p.kind is Kind.FRESH
    if p.kind is Kind.METHOD or not (is_object or runs_python(x)):
        raise NotProvedError("it passes a C function to C code")


def runs_python(x: Any) -> bool:
    """Whether calling `x` runs Python code."""
    methods = (c.__dict__["__call__"] for c in type(x).__mro__ if "__call__" in c.__dict__)
    return isinstance(next(methods, None), types.FunctionType)


def invoke(
    facts: Facts, s: ShadowFrame, callee: Provenance, args: list[Provenance],
    named: dict[str, Provenance],
) -> Provenance:
    """Return the provenance of a C function's result."""
    function, operands = callee.value, [*args, *named.values()]
    call = s.call
    assert call is not None
    is_text = function is format or function is _FORMAT
    if is_text and not named and (text := make_text(facts, function, args)) is not None:
        call.carries = call.keeps_slot = True
        return text
    if not named and is_pure(function) and function in NUMBER_FUNCTIONS:
        number = call_of_numbers(facts, function, args)
        if number is None and (read := call_of_reads(facts, function, args)) is not None:
            number = Provenance(Kind.NUMBER, read=read)
        if number is not None:
            call.carries = call.keeps_slot = True
            return number
    if function in _OF_CLASS and operands[0].kind is Kind.OUTSIDE:
        call.carries = True  # the class is guarded, not the object
        facts.need(*operands[1:])
    else:
        facts.need(*operands)
    if function in _BY_NAME and args[1].value.__class__ is str:
        return _access_by_name(facts, s, function, args)
    if function is next:
        if args[0].kind is Kind.OUTSIDE and is_count(args[0].value):
            return advance_count(facts, args[0])
        if args[0].kind is not Kind.FRESH:
            raise NotProvedError("next() advances an iterator from outside the step")
        return Provenance(Kind.PLAIN, tainted=args[0].tainted)
    if isinstance(function, _C_METHODS):
        return _call_method(facts, call, function, args)
    if is_numpy_of_numbers(function, [p.value for p in operands]):
        return call_numpy(facts, call, operands)
    if not is_pure(function):
        name = getattr(function, "__qualname__", None) or type(function).__name__
        raise NotProvedError(f"it calls {name}, a C function that is not known to be pure")
    return _call_pure_function(facts, call, function, operands)


def call_numpy(facts: Facts, call: CallState, operands: list[Provenance]) -> Provenance:
    """Return the provenance of what one of NumPy's functions computes from numbers."""
    for p in operands:
        guard_content(facts, p)
    call.runs = Runs.PERFORMED  # some are written in Python, which need not be watched
    call.keeps_slot = True
    return call.slot or Provenance(Kind.PLAIN)


def _call_method(
    facts: Facts, call: CallState, function: Any, args: list[Provenance]
) -> Provenance:
    kind, name, owner = function.__objclass__, function.__name__, args[0]
    if name in SEARCHING_METHODS and (name != "update" or kind is set):
        refuse_tensors(*args[1:2])
    if kind is object and name in ("__setattr__", "__init__") and owner.kind is Kind.FRESH:
        owner.tainted |= call.tainted
        return Provenance(Kind.PLAIN, None)
    if kind in VALUE_TYPES and owner.kind in (
        Kind.PLAIN, Kind.NUMBER, Kind.FRESH, Kind.ARGUMENT
    ):
        for p in args[1:]:
            guard_content(facts, p)
            if name in ("format", "format_map") and p.kind not in (Kind.PLAIN, Kind.NUMBER):
                raise NotProvedError("format() may read attributes of its arguments")
        if call.operands.has_tensors:
            return Provenance(Kind.FRESH, tainted=call.tainted)
        known = kind if kind in (str, bytes) and name not in ("split", "find") else None
        return Provenance(Kind.PLAIN, tainted=call.tainted, type=known)
    if name in READING_METHODS.get(kind, ()):
        return _read_container(facts, owner, name, args)
    if name in WRITING_METHODS.get(kind, ()):
        return _write_container(facts, call, owner, function, args)
    raise NotProvedError(
        f"it calls {function.__qualname__}, a C function that is not known to be pure"
    )


def _write_container(
    facts: Facts, call: CallState, owner: Provenance, function: Any, args: list[Provenance]
) -> Provenance:
    if owner.kind is Kind.ARGUMENT:
        raise NotProvedError(CHANGES_ARGUMENT)
    if owner.kind is not Kind.FRESH:
        appends = owner.kind is Kind.OUTSIDE and function in (list.append, list.extend)
        is_new = all(p.kind in (Kind.TENSOR, Kind.NUMBER, Kind.FRESH, Kind.PLAIN) for p in args[1:])
        if not appends or not is_new or (id(owner.value), Aspect.LENGTH) in facts.reads:
            raise NotProvedError(
                f"{function.__qualname__} writes to a {type(owner.value).__name__} "
                "from outside the step"
            )
        _note_appended(facts, owner, function, args[1])
        call.keeps_slot = True
        return Provenance(Kind.PLAIN, None)
    for p in args[1:]:
        guard_if_container(facts, p)
    if function is list.append and isinstance(owner.parts, list):
        owner.parts += args[1:]
    else:
        owner.parts = None
    owner.tainted |= call.tainted
    call.keeps_slot = True
    return Provenance(Kind.PLAIN, tainted=owner.tainted)


def _note_appended(facts: Facts, owner: Provenance, function: Any, added: Provenance) -> None:
    """Record entries appended to an outside list, so that the program appends them too."""
    key = id(owner.value), Aspect.LENGTH
    facts.writes[key] = Provenance(Kind.NUMBER)
    store, path = facts.stores.get(key), facts.proof.describe(facts.path_of(owner))
    facts.require_order(key, path)
    if store is None:
        store = facts.stores[key] = AppendedEntries(
            Place(owner.value, None), path, facts.line, [], after=facts.prints,
            start=len(owner.value))
    if function is list.append:
        store.values.append(added)
    else:
        store.values += added.parts if isinstance(added.parts, list) else added.items or [None]


def _read_container(
    facts: Facts, owner: Provenance, name: str, args: list[Provenance]
) -> Provenance:
    is_get = name in ("get", "__getitem__", "__contains__")
    if owner.kind is Kind.OUTSIDE and is_get:
        key = args[1].value
        if not is_plain(key) or args[1].tainted:
            raise NotProvedError("it looks up a key of unknown origin")
        if key in owner.value:
            path = f"{facts.path_of(owner)}[{key!r}]"
            p = facts.read((id(owner.value), key), path, owner.value[key])
            return Provenance(Kind.PLAIN, True) if name == "__contains__" else p
        facts.guard(facts.path_of(owner), Test.ABSENT, key)
        if name == "__contains__":
            return Provenance(Kind.PLAIN, False)
        return args[2] if len(args) > 2 else Provenance(Kind.PLAIN, None)
    if owner.kind is Kind.OUTSIDE:
        guard_content(facts, owner)
    elif owner.kind not in (Kind.FRESH, Kind.ARGUMENT):
        raise NotProvedError(f"{name}() of an object of unknown origin")
    elif is_get and owner.value is not UNKNOWN and args[1].kind is Kind.PLAIN and (
        args[1].value is not UNKNOWN and name != "__contains__"
    ):
        if args[1].value in owner.value:
            return facts.part(owner, owner.value[args[1].value])
        return args[2] if len(args) > 2 else Provenance(Kind.PLAIN, None)
    return Provenance(Kind.PLAIN if is_get else Kind.FRESH, tainted=owner.tainted)


def _access_by_name(
    facts: Facts, s: ShadowFrame, function: Callable[..., Any], args: list[Provenance]
) -> Provenance:
    """Handle getattr, hasattr and setattr."""
    owner, name = args[0], args[1].value
    if function is setattr:
        store(facts, s, owner, name, args[2], item=False)
        return Provenance(Kind.PLAIN, None)
    is_there = has_attribute(owner.value, name)
    if function is hasattr and not is_there and hasattr(type(owner.value), "__getattr__") and (
        not isinstance(owner.value, Module)
    ):
        raise NotProvedError(f"hasattr() runs code of {type(owner.value).__name__}")
    value = load_attribute(facts, s, owner, name)
    if function is hasattr:
        s.call = None
        return Provenance(Kind.PLAIN, is_there)
    return value if is_there or len(args) < 3 else args[2]


def _call_pure_function(
    facts: Facts, call: CallState, function: Any, operands: list[Provenance]
) -> Provenance:
    slot = call.slot
    assert slot is not None
    if function is iter and len(operands) > 1:
        raise NotProvedError("iter() calls its argument")
    if function not in (isinstance, issubclass, callable):
        for p in operands:
            check_callback(p)
            is_outside = p.kind is Kind.OUTSIDE
            if p.kind is Kind.OPAQUE or (is_outside and hasattr(type(p.value), "__next__")):
                raise NotProvedError(f"{function.__name__}() of an object of unknown origin")
            guard_content(facts, p, only_length=function is len)
    if function is iter:
        slot = call.slot = Provenance(Kind.FRESH, tainted=call.tainted)
    elif function in OF_STRUCTURE:
        if function in (isinstance, issubclass):
            _guard_metaclasses(facts, operands[1].value)
        if function is isinstance and operands[0].kind is Kind.OUTSIDE:
            facts.guard_type(operands[0])
        if function is callable and operands[0].kind in (Kind.OUTSIDE, Kind.FRESH):
            facts.guard_type(operands[0])
            facts.guard_lookup(type(operands[0].value), "__call__")
        call.keeps_slot = True
        slot.tainted = (function is len and operands[0].tainted
                        and type(operands[0].value) not in (list, tuple))
        slot.kind = Kind.PLAIN
        if function is len and type(operands[0].value) in (Tensor, list, tuple, dict):
            slot.value = len(operands[0].value)
    else:
        call.decides = function in CHOOSING
        call.keeps_slot = function is not abs  # a callback's return value is not the result
        if slot.tainted:
            slot.kind = Kind.NUMBER
            listed = operands[0].parts or operands[0].items if len(operands) == 1 else None
            numbers = listed if isinstance(listed, list) else operands
            slot.read = combine_call(function.__name__, [p.read or p.value for p in numbers])
    return slot


def _guard_metaclasses(facts: Facts, kinds: Any) -> None:
    """Guard that the metaclasses of a class or a tuple of classes get no special methods."""
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        facts.guard_special_methods(type(kind))
