"""Opcodes that Python 3.12 to 3.14 added or renamed; the other tables cover all versions."""

from __future__ import annotations

from typing import Any

from .attributes import load_super_attribute
from .calls import invoke
from .control_opcodes import find_context_methods, jump_if, jump_if_none, split_null
from .effects import store
from .facts import Facts
from .object_opcodes import load_entry
from .opcodes import HANDLERS, apply_operator, decide, opcode
from .provenance import UNKNOWN, Kind, NotProvedError, Provenance, depends_on_values
from .shadow_frame import ShadowFrame
from .stack_opcodes import format_operands, load_local, store_local

HANDLERS.update(dict.fromkeys(("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE"), jump_if))
HANDLERS.update(dict.fromkeys(("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"), jump_if_none))
_UNARY_POSITIVE, _LIST_TO_TUPLE, _STOP_ITERATION = 5, 6, 3  # of CALL_INTRINSIC_1
_METHOD, _HAS_ARGUMENTS = 0x01, 0x02  # flags of LOAD_SUPER_ATTR
_CLOSURE = 0x08  # of SET_FUNCTION_ATTRIBUTE


# --------------------------------------------------------------------------------- variables


@opcode("LOAD_FAST_CHECK")
def load_bound_variable(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    load_local(facts, frame, s, i.argval)


@opcode("LOAD_FAST_AND_CLEAR")
def load_and_clear(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    """Save and clear a variable for an inlined comprehension."""
    s.stack.append(s.variables.pop(i.argval, Provenance(Kind.NULL)))


@opcode("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def load_two(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    for name in i.argval:
        load_local(facts, frame, s, name)


@opcode("STORE_FAST_STORE_FAST")
def store_two(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    for name in i.argval:
        store_local(s, name)


@opcode("STORE_FAST_LOAD_FAST")
def store_and_load(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    stored, loaded = i.argval
    store_local(s, stored)
    if stored != loaded:
        load_local(facts, frame, s, loaded)
        return
    s.stack.append(s.variables[loaded])

    def resolve(offset: int) -> None:  # runs after the instruction, when the object is visible
        x = frame.f_locals.get(loaded, UNKNOWN)
        if x is not UNKNOWN:
            s.stack[-1] = s.variables[loaded] = facts.resolve(s.stack[-1], x)

    s.after_jump = resolve


@opcode("LOAD_SMALL_INT")
def load_small_int(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.append(Provenance(Kind.PLAIN, i.arg))


@opcode("LOAD_COMMON_CONSTANT")
def load_common_constant(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    """Push `all`, `any`, `tuple` or a builtin exception, regardless of the module's globals."""
    s.stack.append(Provenance(Kind.OUTSIDE, i.argval, facts.constant(i.argval)))


# -------------------------------------------------------------------- attributes and entries


@opcode("LOAD_SUPER_ATTR")
def load_super(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    _, owner, receiver = s.pop(3)
    value = load_super_attribute(facts, s, super(owner.value, receiver.value), i.argval)
    s.stack += [Provenance(Kind.NULL), value] if i.arg & _METHOD else [value]


@opcode("LOAD_SPECIAL")
def load_special(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    """Push `__exit__` or `__enter__` for `with`, to be called like any method."""
    owner = s.stack.pop()
    kind, name = owner.type or type(owner.value), i.argrepr
    methods = find_context_methods(facts, kind)
    if name not in methods:
        raise NotProvedError(f"the watcher does not know the special method {name}")
    s.stack += [Provenance(Kind.METHOD, methods[name], name, items=[owner]), Provenance(Kind.NULL)]


@opcode("BINARY_SLICE")
def load_slice(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    owner, start, stop = s.pop(3)
    s.stack.append(load_entry(facts, s, owner, _slice(facts, start, stop)))


@opcode("STORE_SLICE")
def store_slice(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    value, target, start, stop = s.pop(4)
    key = _slice(facts, start, stop)
    if key.tainted:
        raise depends_on_values("a key")
    store(facts, s, target, key.value, value, item=True)


def _slice(facts: Facts, start: Provenance, stop: Provenance) -> Provenance:
    facts.need(start, stop)
    tainted = start.tainted or stop.tainted
    return Provenance(Kind.PLAIN, slice(start.value, stop.value), tainted=tainted)


# --------------------------------------------------------------------- operators and formats


@opcode("TO_BOOL")
def to_bool(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    decide(facts, s, s.stack.pop())
    s.stack.append(Provenance(Kind.PLAIN))


@opcode("CALL_INTRINSIC_1")
def call_intrinsic(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    if i.arg == _LIST_TO_TUPLE:
        s.stack.append(Provenance(Kind.FRESH, tainted=s.stack.pop().tainted, type=tuple))
    elif i.arg == _UNARY_POSITIVE:
        s.stack.append(apply_operator(facts, s, [s.stack.pop()], "+"))
    elif i.arg != _STOP_ITERATION:
        raise NotProvedError(f"the watcher does not know the intrinsic {i.arg}")


@opcode("CONVERT_VALUE")
def convert_value(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    format_operands(facts, s, 1, i.arg, formats=False)


@opcode("FORMAT_SIMPLE")
def format_simply(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    format_operands(facts, s, 1)


@opcode("FORMAT_WITH_SPEC")
def format_with_spec(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    format_operands(facts, s, 2)


# ------------------------------------------------------------------- functions, calls, loops


@opcode("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    value, function = s.pop(2)
    if i.arg & _CLOSURE:
        function.cells = [cell for p in value.items or () for cell in p.cells or ()]
    else:
        facts.need(value)
    s.stack.append(function)


@opcode("POP_ITER")
def pop_iterator(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.pop()


@opcode("CALL_KW")
def call_with_keywords(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    names = s.stack.pop().value
    first, second, *args = s.pop(i.arg + 2)
    callee, receiver = split_null(first, second)
    if receiver is not None:
        args = [receiver, *args]
    cut = len(args) - len(names)
    named = dict(zip(names, args[cut:], strict=True))
    s.stack.append(invoke(facts, frame, s, callee, args[:cut], named))


@opcode("RETURN_CONST")
def return_constant(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.result = Provenance(Kind.PLAIN, i.argval)


@opcode("END_SEND")
def end_send(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    del s.stack[-2]


@opcode("END_FOR")
def end_loop(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    """End a loop over a generator; other loops jump past this instruction."""
    s.stack.pop()
