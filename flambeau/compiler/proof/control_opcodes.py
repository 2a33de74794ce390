"""Opcodes of control flow: jumps, loops, exceptions, context managers, calls and returns."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

from .bytecode import HAS_KEYWORDS_SLOT, KEEPS_DELEGATE, KEEPS_ITERATOR, find_starts, loop_ends
from .calls import invoke
from .contents import guard_content, guard_if_container
from .declarations import is_in_library
from .facts import Facts
from .numbers.decisions import guard_number_classes
from .opcodes import decide, opcode
from .provenance import Kind, NotProvedError, Provenance
from .shadow_frame import CallState, Callee, Runs, ShadowFrame

# ------------------------------------------------------------------------------ jumps, loops


@opcode(
    "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_FALSE",
)
def jump_if(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    decide(facts, s, s.stack.pop())


@opcode(
    "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE",
)
def jump_if_none(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    p = s.stack.pop()
    if p.kind is Kind.OUTSIDE:
        facts.guard_type(p)
    elif p.symbol is None:
        facts.need(p)
    else:
        guard_number_classes(facts, p)


@opcode("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP")
def jump_or_pop(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    decide(facts, s, s.stack[-1])
    targets = find_starts(s.instructions, i.argval)

    def after(offset: int) -> None:
        if offset not in targets:
            s.stack.pop()

    s.after_jump = after


@opcode("GET_ITER")
def get_iterator(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    p = s.stack.pop()
    facts.need(p)
    is_iterator = p.kind is Kind.OUTSIDE and hasattr(type(p.value), "__next__")
    if p.kind in (Kind.OPAQUE, Kind.NUMBER) or is_iterator:
        raise NotProvedError("it iterates over an object of unknown origin")
    guard_content(facts, p)
    iterator = Provenance(Kind.FRESH, tainted=p.tainted)
    s.stack.append(iterator)
    s.call = CallState(iterator, keeps_slot=True)


@opcode("FOR_ITER")
def advance_iterator(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    iterator = s.stack[-1]
    if iterator.kind is Kind.OUTSIDE:
        raise NotProvedError("it advances an iterator from outside the step")
    item = Provenance(Kind.PLAIN, tainted=iterator.tainted)
    s.call = CallState(item, runs=Runs.ANY_CODE, keeps_slot=True)
    ends = loop_ends(s.instructions, i.argval)

    def after(offset: int) -> None:
        if offset not in ends:
            s.stack.append(item)
        elif not KEEPS_ITERATOR:
            s.stack.pop()

    s.after_jump = after


@opcode("GET_YIELD_FROM_ITER")
def get_delegate(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    get_iterator(facts, frame, s, i)


@opcode("SEND")
def send(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    """`yield from`: the delegate yields an item or ends with a result."""
    s.stack.pop()
    delegate = s.stack[-1]
    item = Provenance(Kind.PLAIN, tainted=delegate.tainted)
    s.call = CallState(item, runs=Runs.ANY_CODE, keeps_slot=True)
    ends = find_starts(s.instructions, i.argval)

    def after(offset: int) -> None:
        if offset in ends and not KEEPS_DELEGATE:
            s.stack.pop()
        s.stack.append(item)

    s.after_jump = after


# -------------------------------------------------------------------------------- exceptions


@opcode("PUSH_EXC_INFO")
def push_exception(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.insert(-1, Provenance(Kind.PLAIN))


@opcode("POP_EXCEPT", "RERAISE")
def pop_exception(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.pop()


@opcode("CHECK_EXC_MATCH")
def match_exception(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack[-1] = Provenance(Kind.PLAIN)


@opcode("RAISE_VARARGS")
def raise_exception(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.pop(i.arg)


# -------------------------------------------------------------------------- context managers


@opcode("BEFORE_WITH")
def enter_context(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    p = s.stack.pop()
    kind = p.type or type(p.value)
    methods = find_context_methods(facts, kind)
    s.stack.append(Provenance(Kind.METHOD, methods["__exit__"], "__exit__", items=[p]))
    slot = Provenance(Kind.PLAIN)
    s.call = CallState(slot, runs=Runs.ANY_CODE, created=kind)
    s.stack.append(slot)
    enter = methods["__enter__"]
    if not is_in_library(enter.__code__):
        code = enter.__code__
        s.call.callee = Callee(code, Provenance(Kind.OUTSIDE, enter),
                               lambda frame: {code.co_varnames[0]: p})


def find_context_methods(facts: Facts, kind: type) -> dict[str, types.FunctionType]:
    """Return the `__enter__` and `__exit__` of a class, and guard them."""
    methods = {name: getattr(kind, name, None) for name in ("__enter__", "__exit__")}
    functions = {name: m for name, m in methods.items() if isinstance(m, types.FunctionType)}
    if len(functions) < len(methods):
        raise NotProvedError(f"it enters a {kind.__name__}, whose code is not watched")
    if not is_in_library(functions["__enter__"].__code__):
        for name in functions:
            facts.guard_class(kind, name)
    return functions


@opcode("WITH_EXCEPT_START")
def leave_context_by_exception(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.append(Provenance(Kind.PLAIN))


# ------------------------------------------------------------------------- calls and returns


@opcode("CALL")
def call(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    first, second, *args = s.pop(i.arg + 2)
    callee, receiver = split_null(first, second)
    if receiver is not None:
        args = [receiver, *args]
    names, s.keyword_names = s.keyword_names, ()
    cut = len(args) - len(names)
    named = dict(zip(names, args[cut:], strict=True))
    s.stack.append(invoke(facts, frame, s, callee, args[:cut], named))


def split_null(first: Provenance, second: Provenance) -> tuple[Provenance, Provenance | None]:
    """Return (callee, receiver or None); the NULL comes after the callee from Python 3.13 on."""
    if first.kind is Kind.NULL:
        return second, None
    return first, None if second.kind is Kind.NULL else second


@opcode("CALL_FUNCTION_EX")
def call_with_stars(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    named = s.stack.pop() if HAS_KEYWORDS_SLOT or i.arg & 1 else None
    if named is not None and named.kind is Kind.NULL:
        named = None
    args = s.stack.pop()
    callee, _ = split_null(*s.pop(2))
    for p in (args, named):
        if p is not None:
            facts.need(p)
            guard_content(facts, p)
    if args.items is not None and named is None:
        s.stack.append(invoke(facts, frame, s, callee, args.items, {}))
        return
    if args.tainted or (named is not None and named.tainted):
        raise NotProvedError("it passes numbers from tensors through * or **")
    if callee.value is print:
        raise NotProvedError("it passes arguments of unknown origin to print()")
    positional = args.items or [Provenance(Kind.FRESH, type=tuple)]
    result = invoke(facts, frame, s, callee, positional, {})
    if s.call is not None and s.call.callee is not None:  # parameters are matched by identity
        s.call.callee = replace(s.call.callee, bind=lambda frame: {})
    s.stack.append(result)


@opcode("YIELD_VALUE")
def yield_value(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.result = s.stack.pop()
    facts.need(s.result)
    guard_if_container(facts, s.result)
    s.stack.append(Provenance(Kind.PLAIN, None))


@opcode("RETURN_VALUE")
def return_value(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.result = s.stack.pop()
