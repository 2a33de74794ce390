"""Opcodes that move slots, read and write variables, and create containers and functions."""

from __future__ import annotations

import builtins
import types
from typing import Any

from ..trace.host_numbers import Place
from .attributes import load_attribute
from .contents import guard_content, guard_if_container
from .contents import refuse_tensors
from .effects import note_write
from .facts import Facts
from .opcodes import apply_operator, load_outside, opcode
from .printing import format_text, join_parts
from .provenance import UNKNOWN, Kind, NotProvedError, Provenance, is_plain
from .shadow_frame import CallState, Runs, ShadowFrame

# ------------------------------------------------------------------------------------- stack


@opcode(
    "RESUME", "NOP", "NOT_TAKEN", "CACHE", "MAKE_CELL", "COPY_FREE_VARS", "PRECALL", "JUMP_FORWARD",
    "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "SETUP_ANNOTATIONS",
)
def leave_stack(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    """Do nothing; these opcodes leave the stack unchanged."""


@opcode("RETURN_GENERATOR")
def return_generator(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.append(Provenance(Kind.PLAIN, None))


@opcode("KW_NAMES")
def name_keywords(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    assert s.code is not None
    s.keyword_names = s.code.co_consts[i.arg]


@opcode("POP_TOP")
def pop_top(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.pop()


@opcode("PUSH_NULL")
def push_null(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.append(Provenance(Kind.NULL))


@opcode("COPY")
def copy_slot(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.append(s.stack[-i.arg])


@opcode("SWAP")
def swap_slots(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack[-1], s.stack[-i.arg] = s.stack[-i.arg], s.stack[-1]


@opcode("LOAD_CONST")
def load_constant(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.append(Provenance(Kind.PLAIN, i.argval))


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    facts.proof.constants["AssertionError"] = AssertionError
    s.stack.append(Provenance(Kind.OUTSIDE, AssertionError, "AssertionError"))


# --------------------------------------------------------------------------------- variables


@opcode("LOAD_FAST", "LOAD_FAST_BORROW")
def load_variable(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    load_local(facts, frame, s, i.argval)


def load_local(facts: Facts, frame: Any, s: ShadowFrame, name: str) -> None:
    """Push a variable, or its cell for a closure (Python >= 3.13)."""
    if name in s.cells:
        s.stack.append(Provenance(Kind.CELL, cells=[s.cells[name]]))
        return
    x = frame.f_locals.get(name, UNKNOWN)
    p = s.variables.get(name)
    if p is None:
        p = facts.identify(x)
    elif x is not UNKNOWN:
        p = facts.resolve(p, x)
    s.variables[name] = p
    s.stack.append(p)


@opcode("STORE_FAST")
def store_variable(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    store_local(s, i.argval)


def store_local(s: ShadowFrame, name: str) -> None:
    """Pop into a variable; restoring a cleared one (NULL) deletes it."""
    p = s.stack.pop()
    if p.kind is Kind.NULL:
        s.variables.pop(name, None)
    else:
        s.variables[name] = p


@opcode("DELETE_FAST")
def delete_variable(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.variables.pop(i.argval, None)


@opcode("LOAD_CLOSURE")
def load_cell(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    cell = s.cells[i.argval]
    s.stack.append(Provenance(Kind.CELL, cells=[cell]))


@opcode("LOAD_DEREF", "LOAD_CLASSDEREF")
def load_cell_content(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    variable, x = s.cells[i.argval], frame.f_locals.get(i.argval, UNKNOWN)
    if variable.cell is not None and x is not UNKNOWN:
        variable.content = facts.read((id(variable.cell), ""), variable.path, x)
    if variable.content is None:
        raise NotProvedError(f"the variable {i.argval} has an unknown origin")
    if x is not UNKNOWN:
        variable.content = facts.resolve(variable.content, x)
    s.stack.append(variable.content)


@opcode("STORE_DEREF")
def store_cell_content(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    p, variable = s.stack.pop(), s.cells[i.argval]
    if variable.cell is not None:
        note_write(facts, Place(variable.cell, ""), variable.path, p)
    variable.content = p


@opcode("DELETE_DEREF")
def delete_cell_content(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    if s.cells[i.argval].path:
        raise NotProvedError(f"it deletes the variable {i.argval}")
    s.cells[i.argval].content = None


@opcode("LOAD_GLOBAL")
def load_global(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    if i.arg & 1:
        s.stack.append(Provenance(Kind.NULL))
    try:
        s.stack.append(load_outside(facts, frame.f_globals, i.argval))
    except KeyError:
        if frame.f_builtins is not vars(builtins):
            raise NotProvedError(f"{i.argval} is a built-in of its module's own") from None
        s.stack.append(load_outside(facts, vars(builtins), i.argval))


@opcode("STORE_GLOBAL")
def store_global(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    space = frame.f_globals
    path = f"{facts.constant(space)}[{i.argval!r}]"
    note_write(facts, Place(space, i.argval), path, s.stack.pop())


# -------------------------------------------------------------------------------- containers


def _build(
    facts: Facts, s: ShadowFrame, count: int, kind: type, items: bool = False
) -> list[Provenance]:
    operands = s.pop(count)
    constant = all(p.kind is Kind.PLAIN and p.value is not UNKNOWN and p.guard is None
                   and not p.tainted for p in operands)
    if kind in (tuple, slice) and constant:
        values = [p.value for p in operands]
        x: Any = tuple(values) if kind is tuple else slice(*values)
        s.stack.append(Provenance(Kind.PLAIN, x, items=operands if kind is tuple else None))
        return operands
    if kind is not tuple:
        facts.need(*operands)
    if not items:
        guard_if_container(facts, *operands)
    s.stack.append(Provenance(
        Kind.PLAIN if kind in (str, slice) else Kind.FRESH, type=kind,
        tainted=any(p.tainted for p in operands), items=operands if items else None,
        parts=[*operands] if kind is list else None,
    ))
    return operands


@opcode("BUILD_TUPLE")
def build_tuple(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    _build(facts, s, i.arg, tuple, items=True)


@opcode("BUILD_LIST", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE")
def build_container(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    if i.opname == "BUILD_STRING" and (text := join_parts(facts, s.stack[-i.arg :])) is not None:
        s.stack[-i.arg :] = [text]
        return
    kinds = {"LIST": list, "SET": set, "STRING": str, "SLICE": slice}
    operands = _build(facts, s, i.arg, kinds[i.opname.removeprefix("BUILD_")])
    if i.opname == "BUILD_SET":
        refuse_tensors(*operands)


@opcode("BUILD_MAP")
def build_map(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    operands = _build(facts, s, 2 * i.arg, dict)
    refuse_tensors(*operands[::2])
    _name_parts(s.stack[-1], operands[::2], operands[1::2])


def _name_parts(built: Provenance, keys: list[Provenance], values: list[Provenance]) -> None:
    """Record the contents of a dict that the call built, if its keys are known."""
    if all(is_plain(key.value) and not key.tainted for key in keys):
        built.parts = {key.value: p for key, p in zip(keys, values, strict=True)}


@opcode("BUILD_CONST_KEY_MAP")
def build_map_of_constant_keys(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    *values, keys = _build(facts, s, i.arg + 1, dict)
    s.stack[-1].parts = dict(zip(keys.value, values, strict=True))


@opcode("LIST_TO_TUPLE")
def list_to_tuple(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.append(Provenance(Kind.FRESH, tainted=s.stack.pop().tainted, type=tuple))


@opcode(
    "LIST_APPEND", "SET_ADD", "MAP_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE"
)
def add_to_container(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    operands = s.pop(2 if i.opname == "MAP_ADD" else 1)
    facts.need(*operands)
    guard_if_container(facts, *operands)
    if i.opname in ("SET_ADD", "SET_UPDATE", "MAP_ADD"):
        refuse_tensors(operands[0])
    if i.opname.endswith(("EXTEND", "UPDATE", "MERGE")):
        for p in operands:
            if p.kind is Kind.OPAQUE or (p.kind is Kind.OUTSIDE and hasattr(p.value, "__next__")):
                raise NotProvedError("it unpacks an object of unknown origin")
            guard_content(facts, p)
    target = s.stack[-i.arg]
    target.tainted |= any(p.tainted for p in operands)
    if i.opname == "LIST_APPEND" and isinstance(target.parts, list):
        target.parts += operands
    elif i.opname == "LIST_EXTEND" and isinstance(target.parts, list) and operands[0].items:
        target.parts += operands[0].items
    else:
        target.parts = None


@opcode("MAKE_FUNCTION")
def make_function(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    code = s.stack.pop().value
    cells = None
    flags = i.arg or 0  # Python >= 3.13 sets these with separate opcodes
    if flags & 0x08:
        cells = [c for p in s.stack.pop().items or () for c in p.cells or ()]
    for flag in (0x04, 0x02, 0x01):  # annotations, keyword defaults, defaults
        if flags & flag:
            facts.need(s.stack.pop())
    function = Provenance(Kind.FRESH, code=code, cells=cells)
    facts.functions.setdefault(code, []).append(function)
    s.stack.append(function)


@opcode("FORMAT_VALUE")
def format_value(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    format_operands(facts, s, 2 if i.arg & 0x04 else 1, i.arg & 0x03)


def format_operands(
    facts: Facts, s: ShadowFrame, count: int, conversion: int = 0, formats: bool = True
) -> None:
    """Format a value, with an optional format specification, as text."""
    operands = s.pop(count)
    spec = operands[1] if count > 1 else None
    known = format_text(facts, conversion, operands[0], spec, formats)
    if known is not None:
        s.stack.append(known)
        return
    if any(p.kind is Kind.TENSOR for p in operands):
        raise NotProvedError("it prints a tensor's values")
    text = apply_operator(facts, s, operands, "a format")
    assert s.call is not None
    s.call.keeps_slot, text.type = True, str
    s.stack.append(text)


@opcode("IMPORT_NAME")
def import_name(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    import sys

    level, names = s.pop(2)
    if level.value != 0:
        raise NotProvedError(f"it imports {i.argval} relative to its package")
    module = sys.modules.get(i.argval)
    space = sys.modules
    if module is None or frame.f_builtins["__import__"] is not builtins.__import__:
        raise NotProvedError(f"it imports {i.argval}, which is not loaded yet")
    facts.need(load_outside(facts, vars(builtins), "__import__"))
    if not isinstance(builtins.__import__, types.BuiltinFunctionType):
        raise NotProvedError(f"it imports {i.argval} by a function of the step's own")
    path = f"{facts.constant(space)}[{i.argval!r}]"
    p = facts.read((id(space), i.argval), path, module)
    top = sys.modules[i.argval.partition(".")[0]]
    if top is not module and not names.value:  # `import a.b` binds a
        p = facts.read((id(space), top.__name__), f"{facts.constant(space)}[{top.__name__!r}]", top)
    s.call = CallState(p, runs=Runs.PERFORMED, keeps_slot=True)
    s.stack.append(p)


@opcode("IMPORT_FROM")
def import_from(facts: Facts, frame: Any, s: ShadowFrame, i: Any) -> None:
    s.stack.append(load_attribute(facts, s, s.stack[-1], i.argval))
