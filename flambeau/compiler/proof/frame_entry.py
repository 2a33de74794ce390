"""Enters a frame that the watcher meets: its shadow, bound arguments and cells."""

from __future__ import annotations

import types
from typing import Any

from .calls import find_function
from .facts import Facts
from .provenance import UNKNOWN, NotProvedError, Provenance, Variable
from .shadow_frame import ShadowFrame


def enter(facts: Facts, frame: Any, above: ShadowFrame | None) -> ShadowFrame:
    """Return the shadow of a new frame, matched by the opcode that calls it or by identity."""
    code = frame.f_code
    call = above.call if above is not None else None
    bound: dict[str, Provenance] = {}
    function: Provenance | None = None
    is_called = call is not None and call.code is code and not call.entered
    if is_called:
        assert call is not None
        assert call.bind is not None
        call.entered = True
        function, bound = call.function, call.bind(frame)
    elif code in facts.functions:
        if len(facts.functions[code]) > 1:
            raise NotProvedError("code that is not watched calls one of several functions")
        function = facts.functions[code][0]
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    for name in code.co_varnames[:count]:
        if name not in bound and name in frame.f_locals:
            bound[name] = facts.identify(
                frame.f_locals[name], call is not None and call.tainted,
                None if call is None else call.created,
            )
    if not is_called:
        _guard_method(facts, frame)
    shadow = ShadowFrame.of(code, function, bound)
    if code.co_freevars:
        _bind_cells(facts, shadow, frame, function)
    return shadow


def _guard_method(facts: Facts, frame: Any) -> None:
    """Guard that C code or the library finds the same method on the class again."""
    code: types.CodeType = frame.f_code
    if code.co_argcount:
        kind = type(frame.f_locals.get(code.co_varnames[0]))
        for owner in kind.__mro__:
            for name, member in owner.__dict__.items():
                function = _function_of(member, code)
                if function is not None:
                    facts.guard_lookup(kind, name)
                    facts.guard_code(function)


def _bind_cells(
    facts: Facts, shadow: ShadowFrame, frame: Any, function: Provenance | None
) -> None:
    code: types.CodeType = frame.f_code
    if function is not None and function.cells is not None:
        shadow.cells.update(zip(code.co_freevars, function.cells, strict=True))
        return
    x: Any = UNKNOWN if function is None else function.value
    if x is UNKNOWN:
        x = find_function(frame)
    x = getattr(x, "__func__", x)  # unwrap a method
    if x is None or getattr(x, "__code__", None) is not code:
        raise NotProvedError(f"nobody knows which function {code.co_name} is")
    for name, cell in zip(code.co_freevars, x.__closure__, strict=True):
        path = f"{facts.constant(cell)}.cell_contents"
        shadow.cells[name] = Variable(None, path, cell)


def _function_of(member: Any, code: types.CodeType) -> Any:
    """Return the function of a class member or property that has this code, or None."""
    parts = (member.fget, member.fset, member.fdel) if isinstance(member, property) else (member,)
    return next((f for f in parts if getattr(f, "__code__", None) is code), None)
