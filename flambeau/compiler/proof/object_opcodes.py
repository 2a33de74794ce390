"""Opcodes that read and write attributes and entries, and apply operators."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np

from ...nn.module import Module
from ...tensor.size import Size
from ...tensor.tensor import Tensor
from ..trace.host_numbers import Read, combine
from .attributes import load_attribute
from .bytecode import IS_METHOD_FLAG
from .calls import bind_parameters
from .contents import guard_content, guard_if_container
from .contents import refuse_tensors
from .declarations import is_in_library
from .effects import store
from .facts import Facts
from .guards import Test
from .numbers.decisions import (
    combine_numbers, combine_reads, guard_number_classes, negate_number,
)
from .opcodes import apply_operator, decide, opcode
from .printing import combine_texts
from .provenance import (
    UNKNOWN, Increment, Kind, NotProvedError, Provenance, depends_on_values, is_plain,
)
from .purity import ARITHMETIC
from .shadow_frame import CallState, Callee, Runs, ShadowFrame
from .state.module_state import declare_module

_INDEXABLE = (list, tuple, dict, OrderedDict)
_MAPPINGS = (dict, OrderedDict, defaultdict)

# -------------------------------------------------------------------- attributes and entries


@opcode("LOAD_ATTR")
def load_attr(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    value = load_attribute(facts, s, s.stack.pop(), i.argval)
    is_method = IS_METHOD_FLAG and i.arg & 0x01
    s.stack += [Provenance(Kind.NULL), value] if is_method else [value]


@opcode("LOAD_METHOD")
def load_method(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    owner = s.stack.pop()
    s.stack += [Provenance(Kind.NULL), load_attribute(facts, s, owner, i.argval)]


@opcode("STORE_ATTR")
def store_attr(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    target, value = s.stack.pop(), s.stack.pop()
    store(facts, s, target, i.argval, value, item=False)


@opcode("STORE_SUBSCR")
def store_subscript(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    value, target, key = s.pop(3)
    facts.need(key)
    if key.tainted:
        raise depends_on_values("a key")
    if target.kind is Kind.TENSOR:
        guard_if_container(facts, key)
    else:
        refuse_tensors(key)
    key = count_from_start(facts, target, key)
    store(facts, s, target, key.value, value, item=True)


@opcode("BINARY_SUBSCR")
def load_subscript(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    owner, key = s.pop(2)
    s.stack.append(load_entry(facts, s, owner, key))


def load_entry(facts: Facts, s: ShadowFrame, owner: Provenance, key: Provenance) -> Provenance:
    """Return the provenance of `owner[key]`."""
    facts.need(key)
    if key.kind is Kind.TENSOR and is_kept_by_tensor(owner, key):
        return _read_entry_of_tensor(facts, owner, key)
    if key.tainted or (key.kind is Kind.TENSOR and owner.kind is not Kind.TENSOR):
        raise depends_on_values("an index or a key")
    if owner.kind is Kind.TENSOR:
        facts.guard_class(Tensor, "__getitem__")
        guard_if_container(facts, key)
        s.call = CallState(runs=Runs.ANY_CODE)
        return Provenance(Kind.TENSOR)
    if owner.kind is Kind.ARGUMENT:
        guard_content(facts, owner)
    if owner.kind is Kind.NUMBER:
        return Provenance(Kind.NUMBER)
    if owner.items and isinstance(key.value, int) and -1 <= key.value < len(owner.items):
        return owner.items[key.value]
    if owner.kind in (Kind.PLAIN, Kind.FRESH, Kind.ARGUMENT):
        return _read_own_entry(facts, s, owner, key)
    if owner.kind is Kind.OUTSIDE:
        return _read_outside_entry(facts, s, owner, key)
    raise NotProvedError(f"it reads an entry of a {type(owner.value).__name__}")


def _read_own_entry(facts: Facts, s: ShadowFrame, owner: Provenance, key: Provenance) -> Provenance:
    x = owner.value
    facts.need(owner)
    value: Any = UNKNOWN
    if (x.__class__ in (*_INDEXABLE, str, Size) or isinstance(x, tuple)) and (
        key.value is not UNKNOWN and key.kind is Kind.PLAIN
    ):
        try:
            value = x[key.value]
        except (LookupError, TypeError):
            value = UNKNOWN
    getter = getattr(type(x), "__getitem__", None)
    if x is not UNKNOWN and isinstance(getter, types.FunctionType) and not is_in_library(
        getter.__code__
    ):
        return _run_getitem(facts, s, owner, key, getter)
    if value is UNKNOWN:
        return Provenance(Kind.PLAIN, tainted=owner.tainted)
    return facts.part(owner, value)


def _read_outside_entry(
    facts: Facts, s: ShadowFrame, owner: Provenance, key: Provenance
) -> Provenance:
    x = owner.value
    if isinstance(x, Module):
        declare_module(facts, x)
        slot = Provenance(Kind.PLAIN)
        s.call = CallState(slot, runs=Runs.ANY_CODE)
        return slot
    if isinstance(x, np.ndarray):
        guard_content(facts, owner)
        value = x[key.value] if is_plain(key.value) else UNKNOWN
        return Provenance(Kind.PLAIN, value) if is_plain(value) else facts.fresh(value)
    if x.__class__ is defaultdict and is_plain(key.value) and key.value in x:
        path = f"{facts.path_of(owner)}.get({key.value!r})"  # [] would add what is missing
        return facts.read((id(x), key.value), path, x[key.value])
    if x.__class__ in _INDEXABLE and is_plain(key.value):
        key = count_from_start(facts, owner, key)
        if isinstance(key.value, slice) or (isinstance(x, dict) and key.value not in x):
            guard_content(facts, owner)
            return Provenance(Kind.FRESH, type=type(x))
        path = f"{facts.path_of(owner)}[{key.value!r}]"
        return facts.read((id(x), key.value), path, x[key.value])
    getter = getattr(type(x), "__getitem__", None)
    if isinstance(getter, types.FunctionType) and not is_in_library(getter.__code__):
        return _run_getitem(facts, s, owner, key, getter)
    raise NotProvedError(f"it reads an entry of a {type(x).__name__}")


def is_kept_by_tensor(owner: Provenance, key: Provenance) -> bool:
    """Whether this looks an outside tensor up in an outside dict, as `state[p]` of an optimizer
    does: by its identity, which is guarded where the tensor was read."""
    return (owner.kind is Kind.OUTSIDE and owner.value.__class__ in _MAPPINGS
            and key.path.startswith("k") and type(key.value).__hash__ is Tensor.__hash__)


def _read_entry_of_tensor(facts: Facts, owner: Provenance, key: Provenance) -> Provenance:
    x = owner.value
    if key.value not in x:
        raise NotProvedError(f"it reads an entry that a {type(x).__name__} lacks")
    facts.guard_class(type(key.value), "__hash__")
    path = f"{facts.path_of(owner)}.get({key.path})"  # a defaultdict would add what is missing
    return facts.read((id(x), (Kind.TENSOR, id(key.value))), path, x[key.value])


def count_from_start(facts: Facts, owner: Provenance, key: Provenance) -> Provenance:
    """Return the positive index of the same entry, since two keys of one place would hide a write
    from a read; guard the length of the list."""
    is_from_end = type(key.value) is int and key.value <= -1
    if not is_from_end or owner.kind is not Kind.OUTSIDE or owner.value.__class__ is not list:
        return key
    guard_content(facts, owner, only_length=True)
    return Provenance(Kind.PLAIN, key.value + len(owner.value))


def _run_getitem(
    facts: Facts, s: ShadowFrame, owner: Provenance, key: Provenance, getter: types.FunctionType
) -> Provenance:
    facts.guard_class(type(owner.value), "__getitem__")
    slot = Provenance(Kind.PLAIN)
    code = getter.__code__
    s.call = CallState(slot, callee=Callee(
        code, Provenance(Kind.OUTSIDE, getter), lambda frame: bind_parameters(
            facts, Provenance(Kind.NULL), code, getter, [owner, key], {})))
    return slot


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    p = s.stack.pop()
    if p.items and len(p.items) == i.arg:
        s.stack += p.items[::-1]
        return
    if p.kind is Kind.TENSOR:
        s.stack += [Provenance(Kind.TENSOR) for _ in range(i.arg)]
        return
    if p.kind is Kind.OUTSIDE:
        guard_content(facts, p)
    elif p.kind not in (Kind.PLAIN, Kind.FRESH, Kind.ARGUMENT):
        raise NotProvedError("it unpacks an object of unknown origin")
    facts.need(p)
    parts = [load_entry(facts, s, p, Provenance(Kind.PLAIN, index)) for index in range(i.arg)]
    s.stack += parts[::-1]


@opcode("UNPACK_EX")
def unpack_with_star(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    p = s.stack.pop()
    if p.kind in (Kind.OPAQUE, Kind.NUMBER):
        raise NotProvedError("it unpacks an object of unknown origin")
    guard_content(facts, p)
    facts.need(p)
    kind = Kind.TENSOR if p.kind is Kind.TENSOR else Kind.PLAIN
    before, after = i.arg & 0xFF, i.arg >> 8
    s.stack += [Provenance(kind, tainted=p.tainted) for _ in range(after)]
    s.stack.append(Provenance(Kind.FRESH, tainted=p.tainted, type=list))
    s.stack += [Provenance(kind, tainted=p.tainted) for _ in range(before)]


@opcode("DELETE_SUBSCR", "DELETE_ATTR")
def delete(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    operands = s.pop(2 if i.opname == "DELETE_SUBSCR" else 1)
    facts.need(*operands)
    if operands[0].kind is not Kind.FRESH:
        raise NotProvedError("it deletes part of an object from outside the step")
    operands[0].parts = None


# --------------------------------------------------------------------------------- operators


@opcode("BINARY_OP")
def binary_operator(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    symbol = i.argrepr
    if symbol == "[]":  # Python >= 3.14
        load_subscript(facts, frame, s, i)
        return
    a, b = s.pop(2)
    if (text := combine_texts(facts, a, b, symbol)) is not None:
        s.stack.append(text)
        return
    number = combine_numbers(facts, a, b, symbol)
    read = combine_reads(facts, a, b, symbol)
    if _increments(a, b, symbol):
        s.stack.append(_increment(a, b, number, read))
        return
    if read is not None:
        s.stack.append(Provenance(Kind.NUMBER, read=read))
        return
    if number is not None:
        s.stack.append(number)
        return
    known = a.value is not UNKNOWN and b.value is not UNKNOWN
    if a.kind is b.kind is Kind.PLAIN and known:
        facts.need(a, b)
        s.stack.append(_compute(a, b, symbol))
        return
    if symbol.endswith("=") and a.kind in (Kind.OUTSIDE, Kind.ARGUMENT):
        kind = type(a.value).__name__
        raise NotProvedError(f"{symbol} may write to a {kind} from outside the step")
    result = apply_operator(facts, s, [a, b], symbol)
    if _joins_containers(a, b, symbol, result):
        s.stack.append(result)
        return
    if symbol.endswith("=") and a.kind is Kind.FRESH:
        a.tainted |= b.tainted
        a.parts = None
    if result.tainted:
        result.kind = Kind.NUMBER
        result.read = combine(symbol.removesuffix("="), a.read or a.value, b.read or b.value)
    s.stack.append(result)


def _joins_containers(a: Provenance, b: Provenance, symbol: str, result: Provenance) -> bool:
    """Whether this concatenates two tuples or lists, or merges two dicts, with known parts;
    `result` gets the combined parts."""
    if symbol == "+" and (first := _list_tuple_items(a)) and (second := _list_tuple_items(b)):
        result.items = [*first, *second]
        result.type = tuple
    elif symbol == "+" and isinstance(a.parts, list) and isinstance(b.parts, list):
        result.parts = [*a.parts, *b.parts]
        result.type = list
    elif symbol == "|" and isinstance(a.parts, dict) and isinstance(b.parts, dict):
        result.parts = {**a.parts, **b.parts}
        result.type = dict
    else:
        return False
    result.kind = Kind.FRESH
    return True


def _list_tuple_items(p: Provenance) -> list[Provenance] | None:
    if p.items and (p.type is tuple or p.value.__class__ is tuple):
        return p.items
    if p.kind is Kind.PLAIN and p.value.__class__ is tuple and p.guard is None:
        return [Provenance(Kind.PLAIN, x) for x in p.value]
    return None


def _increments(a: Provenance, b: Provenance, symbol: str) -> bool:
    """Whether a number is added to a number read from outside."""
    from_outside = (a.path and a.guard is not None) or a.increment is not None
    is_number = a.increment is not None or isinstance(a.value, (int, float))
    return bool(
        symbol in ("+", "+=") and from_outside and b.kind in (Kind.PLAIN, Kind.NUMBER)
        and b.increment is None and b.guard is None and is_number
    )


def _increment(a: Provenance, b: Provenance, number: Provenance | None, read: Read | None
               ) -> Provenance:
    """Return a + b, the value of an outside counter that the step adds to. `number`: the sum with
    its symbol, if it has one; `read`: how a program computes it, if a tensor influenced it."""
    assert a.guard is not None or a.increment is not None
    path, amounts = (a.path, []) if a.increment is None else (a.increment.path,
                                                             a.increment.amounts)
    added = b.read if b.tainted else b.value
    amounts = [*amounts, UNKNOWN if added is None else added]
    return Provenance(
        Kind.NUMBER if a.tainted or b.tainted else Kind.PLAIN,
        UNKNOWN if number is None else number.value, guard=a.guard,
        increment=Increment(path, amounts), symbol=None if number is None else number.symbol,
        read=read)


def _compute(a: Provenance, b: Provenance, symbol: str) -> Provenance:
    tainted = a.tainted or b.tainted
    try:
        value = ARITHMETIC[symbol.rstrip("=")](a.value, b.value)
    except (ArithmeticError, TypeError, ValueError, KeyError):
        value = UNKNOWN
    return Provenance(Kind.PLAIN, value if is_plain(value) else UNKNOWN, tainted=tainted)


@opcode("COMPARE_OP")
def compare(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    operands = s.pop(2)
    if Kind.TENSOR not in (operands[0].kind, operands[1].kind):
        refuse_tensors(*operands)
    symbol = i.argrepr.removeprefix("bool(").removesuffix(")")  # Python >= 3.13
    a, b = operands
    number = combine_numbers(facts, a, b, symbol)
    s.stack.append(apply_operator(facts, s, operands, symbol) if number is None else number)


@opcode("CONTAINS_OP")
def contains(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    member, container = s.pop(2)
    x = container.value
    if member.kind is Kind.TENSOR and is_kept_by_tensor(container, member):
        facts.guard_class(type(member.value), "__hash__")
        path = f"({member.path} in {facts.path_of(container)})"
        facts.guard(path, Test.IDENTITY, member.value in x)
        s.stack.append(Provenance(Kind.PLAIN, member.value in x))
        return
    if container.kind is not Kind.TENSOR:
        refuse_tensors(member)
    if container.kind is Kind.OUTSIDE and x.__class__ in (dict, OrderedDict) and (
        member.value.__class__ is str
    ):
        facts.need(member)
        path = facts.path_of(container)
        if member.value in x:
            key = member.value
            facts.read((id(x), key), f"{path}[{key!r}]", x[key])
        else:
            facts.guard(path, Test.ABSENT, member.value)
        s.stack.append(Provenance(Kind.PLAIN, member.value in x))
        return
    if member.kind is Kind.OUTSIDE:
        member = Provenance(Kind.PLAIN, None)
    s.stack.append(apply_operator(facts, s, [member, container], "in"))


@opcode("IS_OP")
def is_same_object(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    a, b = s.pop(2)
    for p, other in ((a, b), (b, a)):
        if p.symbol is not None and other.value is None:
            facts.need(other)
            guard_number_classes(facts, p)
            s.stack.append(Provenance(Kind.PLAIN))
            return
    facts.need(a, b)
    _guard_sameness(facts, a, b)
    s.stack.append(Provenance(Kind.PLAIN, tainted=a.tainted or b.tainted))


def _guard_sameness(facts: Facts, a: Provenance, b: Provenance) -> None:
    """Guard whether two outside tensors are the same object; refuse argument containers."""
    if Kind.ARGUMENT in (a.kind, b.kind) and Kind.PLAIN not in (a.kind, b.kind):
        raise NotProvedError("it tests whether two arguments are the same object")
    if a.kind is b.kind is Kind.TENSOR and a.path and b.path:
        facts.guard(f"({a.path} is {b.path})", Test.IDENTITY, a.value is b.value)


@opcode("UNARY_NOT")
def negate_truth(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    decide(facts, s, s.stack.pop())
    s.stack.append(Provenance(Kind.PLAIN))


@opcode("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def unary_operator(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    operand = s.stack.pop()
    negated = negate_number(operand) if i.opname == "UNARY_NEGATIVE" else None
    if negated is not None:
        s.stack.append(negated)
        return
    result = apply_operator(facts, s, [operand], i.opname)
    if i.opname == "UNARY_NEGATIVE" and operand.read is not None:
        result.kind = Kind.NUMBER
        result.read = combine("*", operand.read, -1)
    s.stack.append(result)
