"""Decisions: guard what a step decides about an outside number or tensor, not the number itself.

`if step % 100 == 0` only needs the outcome of the comparison. A number's symbol is the expression
that computes it from values that existed before the call. Only operators that behave alike for all
numbers of a class have symbols; any other use of a number guards its value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....native.target.compile_costs import MAX_SYMBOL_CHARACTERS
from ....nn.parameter import Parameter
from ....tensor.tensor import Tensor
from ...trace.host_numbers import Before, Read, combine, combine_call, evaluate
from ...trace.operands import list_numbers
from ...trace.plain_values import are_same_plain
from ..facts import Facts
from ..guards import Guard, Test
from ..provenance import UNKNOWN, Aspect, Kind, Provenance, Symbol, is_number
from ..stores import Store

_Function = Callable[[Any, Any], Any]
# Divisors of // and % are guarded to be nonzero. What else may raise, or become complex, does so
# when guards compute the expression, and then the function itself runs.
_ARITHMETIC: dict[str, _Function] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
}
_OF_INTEGERS: dict[str, _Function] = {
    **_ARITHMETIC, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}
_NUMBERS = (int, float)
_COMPARISONS: dict[str, _Function] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge,
}


def name_arguments(
    facts: Facts, args: tuple, kwargs: dict[str, Any], leaves: list[Any]
) -> tuple[list[Provenance], dict[str, Provenance]]:
    """Return the provenances of a call's arguments. A program guards the values of numbers among
    them only if the step consumes them. `leaves`: the flattened arguments."""
    numbers: dict[int | str, Provenance] = {}
    for leaf, key, x in list_numbers(args, kwargs):
        guard = facts.proof.numbers[leaf] = Guard(f"t{leaf}", Test.VALUE, x, needed=False)
        numbers[key] = Provenance(Kind.PLAIN, x, guard=guard, symbol=Symbol(guard.path, (guard,)))
    return ([numbers.get(i) or facts.argument(x, leaves) for i, x in enumerate(args)],
            {key: numbers.get(key) or facts.argument(x, leaves) for key, x in kwargs.items()})


def decide_number(facts: Facts, p: Provenance) -> None:
    """Guard the truth of a number that has a symbol."""
    assert p.symbol is not None
    if p.symbol.source in facts.decided:
        return
    guard_number_classes(facts, p)
    guard = facts.guard(p.symbol.source, Test.TRUTH, bool(p.value))
    facts.decided[p.symbol.source] = guard, p.symbol.reads
    facts.proof.decisions.append(guard)


def guard_number_classes(facts: Facts, p: Provenance, decides: bool = True) -> None:
    """Guard the classes of the numbers that a symbol is computed from. `decides`: calls with
    numbers of other classes are a path of their own."""
    assert p.symbol is not None
    for read in p.symbol.reads:
        path = f"{read.path}.__class__"
        if path not in facts.decided:
            guard = facts.guard(path, Test.IDENTITY, type(read.value))
            facts.decided[path] = guard, ()
            facts.proof.decisions += [guard] if decides else []


def compute_before(facts: Facts, p: Provenance) -> Before:
    """Return how a program computes a number from outside before its run; guard the classes of the
    numbers behind it."""
    assert p.symbol is not None
    guard_number_classes(facts, p, decides=False)
    for read in p.symbol.reads:  # if the call writes the number, its value must be known
        guard = facts.decided[f"{read.path}.__class__"][0]
        facts.decided[f"before({read.path})"] = guard, (read,)
    return Before(p.symbol.source, p.value)


def combine_reads(facts: Facts, a: Provenance, b: Provenance, symbol: str) -> Read | None:
    """Return an operation on two numbers of which some come from tensors, or None if a program
    cannot repeat it."""
    sides = _list_sides(facts, (a, b))
    return None if sides is None else combine(symbol.removesuffix("="), *sides)


def call_of_reads(facts: Facts, function: Callable[..., Any], operands: Sequence[Provenance]
                  ) -> Read | None:
    """Return a function of numbers of which some come from tensors, or None if a program cannot
    repeat it."""
    sides = _list_sides(facts, operands)
    return None if sides is None else combine_call(function.__name__, sides)


def _list_sides(facts: Facts, operands: Sequence[Provenance]) -> list[Any] | None:
    """Return how a program computes numbers of which some come from tensors, or None if it cannot,
    or none does."""
    known = all(p.read is not None or _write_source(p) is not None for p in operands)
    if not known or all(p.read is None for p in operands):
        return None
    return [p.read if p.read is not None else p.value if p.symbol is None
            else compute_before(facts, p) for p in operands]


# The truth of a tensor's only element, which `if not self.initialized` reads, is guarded if the
# tensor existed before the call and the call has not written to it. It may do so afterwards.


def _can_guard_truth(facts: Facts, x: Any) -> bool:
    return (type(x) in (Tensor, Parameter) and id(x) in facts.existing
            and x._array.__class__ is np.ndarray and x._array.size == 1
            and facts.is_unwritten(x))


def guard_truth(facts: Facts, x: Any) -> bool:
    """Guard the truth of a tensor's only element. Return False if the proof does not hold so far,
    or no guard can compare it."""
    if facts.proof.refusals or not _can_guard_truth(facts, x):
        return False
    key = (id(x), Aspect.CONTENT)
    if key not in facts.reads:
        facts.reads[key] = Provenance(Kind.PLAIN)
        facts.tensors.note(x)
        guard = facts.guard(f"{facts.constant(x)}.item()", Test.TRUTH, bool(x._array.item()))
        guard.precedes_writes = True
    return True


def combine_numbers(facts: Facts, a: Provenance, b: Provenance, symbol: str) -> Provenance | None:
    """Return an operator's result with its symbol, or None if it has no symbol."""
    sources = [_write_source(p) for p in (a, b)]
    if None in sources or (a.symbol is None and b.symbol is None):
        return None
    function = _find_function(a.value, b.value, symbol)
    if function is None:
        return None
    name, apply = function
    source = f"({sources[0]} {name} {sources[1]})"
    if len(source) > MAX_SYMBOL_CHARACTERS:
        return None
    if name in ("//", "%"):
        if not b.value:
            return None
        if b.symbol is not None:
            decide_number(facts, b)
    value = _attempt(apply, a.value, b.value)
    return None if value is None else Provenance(
        Kind.PLAIN, value, symbol=Symbol(source, _list_reads((a, b))))


def call_of_numbers(facts: Facts, function: Callable[..., Any], operands: Sequence[Provenance]
                    ) -> Provenance | None:
    """Return what a pure function computes of numbers, with its symbol, or None if it has none."""
    sources = [_write_source(p) for p in operands]
    if None in sources or all(p.symbol is None for p in operands):
        return None
    source = f"{facts.constant(function)}({', '.join(map(str, sources))})"
    value = _attempt(function, *(p.value for p in operands))
    if value is None or len(source) > MAX_SYMBOL_CHARACTERS:
        return None
    return Provenance(Kind.PLAIN, value, symbol=Symbol(source, _list_reads(operands)))


def _attempt(function: Callable[..., Any], *numbers: Any) -> int | float | bool | None:
    """Return the number that a function computes, or None if it raises or gives something else."""
    try:
        value = function(*numbers)
    except Exception:  # the step will raise it, too
        return None
    return value if is_number(value) or value.__class__ is bool else None


def _list_reads(operands: Sequence[Provenance]) -> tuple[Guard, ...]:
    reads = [read for p in operands if p.symbol is not None for read in p.symbol.reads]
    return tuple(dict.fromkeys(reads))


def negate_number(p: Provenance) -> Provenance | None:
    """Return the negated number with its symbol, or None if it has no symbol."""
    if p.symbol is None or not is_number(p.value):
        return None
    return Provenance(Kind.PLAIN, -p.value, symbol=Symbol(f"(-{p.symbol.source})", p.symbol.reads))


def convert_to_bool(p: Provenance) -> Provenance | None:
    """Return bool() of a number with its symbol, or None if it has no symbol."""
    if p.symbol is None:
        return None
    symbol = Symbol(f"({p.symbol.source} != 0)", p.symbol.reads)
    return Provenance(Kind.PLAIN, bool(p.value), symbol=symbol)


def conclude_numbers(facts: Facts, is_entered: bool) -> str:
    """Restrict decisions on numbers that the call wrote to their values before the call. Return a
    problem if something else changed these numbers, else "". `is_entered`: the step was watched.
    """
    if not is_entered:  # its consumption is unknown
        for guard in facts.proof.numbers.values():
            guard.needed = True
    for guard, reads in facts.decided.values():
        for read in reads:
            store = facts.written.get(read.path)
            if store is not None:
                guard.precedes_writes = True
                problem = _find_unseen_write(facts, store, read.path)
                if problem:
                    return problem
    return ""


def _find_unseen_write(facts: Facts, store: Store, path: str) -> str:
    p = store.values[-1]
    if p is None or p.read is None and (p.tainted or p.value is UNKNOWN):
        return facts.proof.depends_on(path)
    if not are_same_plain(store.read_now(), p.value if p.read is None else evaluate(p.read)):
        return f"{facts.proof.describe(path)} changed during the call in an unknown way"
    return ""


def _find_function(x: Any, y: Any, symbol: str) -> tuple[str, _Function] | None:
    if symbol in _COMPARISONS:
        return symbol, _COMPARISONS[symbol]
    name = symbol.removesuffix("=")
    if type(x) is type(y) is int and name != "**":  # whose result may be huge
        table = _OF_INTEGERS
    elif type(x) in _NUMBERS and type(y) in _NUMBERS and float in (type(x), type(y)):
        table = _ARITHMETIC
    else:
        return None
    return (name, table[name]) if name in table else None


def _write_source(p: Provenance) -> str | None:
    """Return source for a number, or None if it has neither a symbol nor a constant value."""
    if p.symbol is not None:
        return p.symbol.source
    x = p.value
    if p.kind is not Kind.PLAIN or p.tainted or p.guard is not None or p.increment is not None:
        return None
    if x.__class__ is bool or (x.__class__ is int and x.bit_length() <= 64) or (
        x.__class__ is float and math.isfinite(x)
    ):
        return f"({x!r})"
    return None
