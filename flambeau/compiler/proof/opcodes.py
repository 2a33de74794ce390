"""The table of opcode handlers: the effect of each instruction on the shadow stack.

A handler runs before CPython executes its instruction. Opcodes without a handler are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from .contents import guard_content
from .declarations import is_in_library
from .facts import Facts
from .guards import Test
from .numbers.decisions import decide_number, guard_truth
from .numbers.inputs import offer_numbers
from .provenance import Aspect, Kind, NotProvedError, Provenance, depends_on_values
from .shadow_frame import CallState, Runs, ShadowFrame
from .state.object_state import declare_object

Handler = Callable[[Facts, Any, ShadowFrame, Any], None]
HANDLERS: dict[str, Handler] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of these opcodes."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def decide(facts: Facts, s: ShadowFrame, p: Provenance) -> None:
    """Note that the step branches on an object's truth; refuse if it depends on tensor values."""
    if p.symbol is not None:
        decide_number(facts, p)
        return
    facts.need(p)
    if p.kind is Kind.TENSOR and guard_truth(facts, p.value):
        facts.guard_class(Tensor, "__bool__")
        s.call = CallState(name="__bool__", runs=Runs.ANY_CODE)
        return
    s.call = CallState(decides=True, runs=Runs.ANY_CODE)
    if p.kind in (Kind.NUMBER, Kind.TENSOR) or (p.tainted and p.kind is Kind.PLAIN):
        raise depends_on_values("what it does")
    if p.kind is Kind.OPAQUE:
        raise NotProvedError("its result depends on an object of unknown origin")
    if p.kind in (Kind.OUTSIDE, Kind.ARGUMENT):
        _guard_truth(facts, p)


def _guard_truth(facts: Facts, p: Provenance) -> None:
    kind = type(p.value)
    name = "__bool__" if hasattr(kind, "__bool__") else "__len__"
    method = getattr(kind, name, None)
    if method is None:
        facts.guard_lookup(kind, "__bool__", "__len__")
        return
    if hasattr(method, "__code__"):
        facts.guard_lookup(kind, "__bool__", name)
        if is_in_library(method.__code__) and isinstance(p.value, Module):
            guard_content(facts, p)
        elif is_in_library(method.__code__):
            declare_object(facts, p.value, method)
    else:
        guard_content(facts, p, only_length=True)


def apply_operator(
    facts: Facts, s: ShadowFrame, operands: list[Provenance], symbol: str
) -> Provenance:
    """Apply a Python operator to operands that are not all plain."""
    tainted = any(p.tainted for p in operands)
    slot = Provenance(Kind.PLAIN, tainted=tainted)
    call = CallState(slot, runs=Runs.ANY_CODE, tainted=tainted)
    if not any(p.kind is Kind.TENSOR for p in operands):
        facts.need(*operands)
    else:
        offer_numbers(facts, call, operands)
        if any(p.kind is Kind.OUTSIDE for p in operands):
            raise NotProvedError(f"{symbol} of a tensor and an object from outside the step")
        if tainted:
            raise depends_on_values("an operator gets a number that")
        slot = call.slot = Provenance(Kind.TENSOR)
    s.call = call
    for p in operands:
        if p.kind is Kind.OPAQUE:
            raise NotProvedError(
                f"{symbol} of a {type(p.value).__name__} from code that is not watched"
            )
        guard_content(facts, p)
        _guard_operator(facts, p, symbol)
    return slot


_METHODS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod",
            "**": "pow", "@": "matmul", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt",
            ">=": "ge", "in": "contains", "<<": "lshift", ">>": "rshift", "&": "and", "|": "or",
            "^": "xor"}


def _guard_operator(facts: Facts, p: Provenance, symbol: str) -> None:
    """Guard the method that an operator calls on a user class or on Tensor."""
    kind = type(p.value)
    plain = _METHODS.get(symbol) or _METHODS.get(symbol.removesuffix("="), "")
    name = f"__{plain}__"
    if p.kind is Kind.TENSOR and plain:
        facts.guard_lookup(Tensor, name, f"__r{plain}__")
        if symbol not in _METHODS:
            facts.guard_lookup(Tensor, f"__i{plain}__")
        return
    if p.kind in (Kind.FRESH, Kind.OUTSIDE) and hasattr(getattr(kind, name, None), "__code__"):
        facts.guard_class(kind, name)


def load_outside(facts: Facts, space: dict[str, Any], name: str) -> Provenance:
    """Read a name from a namespace. If it is absent, guard the absence and raise KeyError."""
    path = facts.constant(space)
    if name in space:
        return facts.read((id(space), name), f"{path}[{name!r}]", space[name])
    key = (id(space), Aspect.ABSENT, name)
    if key not in facts.reads:
        facts.reads[key] = Provenance(Kind.PLAIN)
        facts.guard(path, Test.ABSENT, name)
    raise KeyError(name)
