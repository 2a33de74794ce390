"""Calls of `print` that a program makes itself: of text, and of numbers that it computes.

What a step prints may be read from tensors, or be a number from outside that differs in each call
(`print(f"{step}: {loss.item():.3f}")`). Printing to a plain stream runs no Python, so only an
exception of `print` shows when it happened; nothing that the step writes may follow the print.
"""

from __future__ import annotations

import functools
import io
import math
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from ...autograd.mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from ..trace.host_numbers import Place, Read, evaluate
from ..trace.plain_values import PLAIN
from ..trace.texts import PrintCall, Slot, Text, interpolate, join_texts, write_text
from .bytecode import decode_exception_table, decode_instructions
from .declarations import is_in_library
from .facts import Facts
from .guards import Test
from .numbers.decisions import compute_before
from .provenance import Kind, NotProvedError, Provenance, is_number
from .shadow_frame import HANDLERS_OF_EVERY_GENERATOR, ShadowFrame
from .stores import Store

_CONVERSIONS: tuple[Callable[[Any], str] | None, ...] = (None, str, repr, ascii)
# A text must not raise for any number of its class: an eager step would stop where it is made.
_SAMPLES: dict[type, tuple[Any, ...]] = {
    int: (0, -1, 7, 2**63), float: (0.0, -1.5, 1e-300, 1e300, math.inf, -math.inf, math.nan),
}
_GRAD_MODES: tuple[type, ...] = (no_grad, enable_grad, set_grad_enabled, inference_mode)
_ENCODINGS = frozenset(("utf-8", "utf8", "ascii", "us-ascii", "latin-1", "iso-8859-1"))
_HANDLERS = frozenset(("strict", "ignore", "replace", "backslashreplace", "surrogateescape"))


# ------------------------------------------------------------------------------------- texts


def make_text(
    facts: Facts, function: Callable[..., Any], operands: list[Provenance]
) -> Provenance | None:
    """Return the provenance of function(*operands), a text, or None if it is not one of numbers
    and constants that a program can repeat."""
    if not operands or not all(map(_is_printable, operands)):
        return None
    text, numbers = _compose(function, operands)
    if not _holds_for_all(text, numbers):  # as with a width that is a number: take it as it is
        operands = [p if p.tainted or not _varies(p) else _fix(facts, p) for p in operands]
        text, numbers = _compose(function, operands)
        if not _holds_for_all(text, numbers):
            return None
    facts.need(*(p for p in operands if not _varies(p)))
    result = Provenance(Kind.NUMBER if any(p.tainted for p in numbers) else Kind.PLAIN,
                        write_text(text, _read_value), type=str)
    if numbers:
        result.text = text
    return result


def _compose(function: Callable[..., Any], operands: list[Provenance]
             ) -> tuple[Text, list[Provenance]]:
    """Return a text and the numbers in it."""
    text = Text(function, tuple(p.text or p for p in operands))
    return text, [*_iterate_numbers(text)]


def _fix(facts: Facts, p: Provenance) -> Provenance:
    """Guard the value of what is computed from outside numbers; return it as a constant."""
    facts.need(p)
    return Provenance(Kind.PLAIN, p.value)


def format_text(
    facts: Facts, conversion: int, value: Provenance, spec: Provenance | None, formats: bool = True
) -> Provenance | None:
    """Return a field of an f-string, or None. `formats`: not only convert it."""
    convert = _CONVERSIONS[conversion]
    if convert is not None:
        converted = make_text(facts, convert, [value])
        if converted is None or not formats:
            return converted
        value = converted
    return make_text(facts, format, [value] if spec is None else [value, spec])


def join_parts(facts: Facts, parts: list[Provenance]) -> Provenance | None:
    """Return the text that consists of these, or None."""
    return make_text(facts, join_texts, parts)


def combine_texts(facts: Facts, a: Provenance, b: Provenance, symbol: str) -> Provenance | None:
    """Return `a % b` or `a + b` of texts, or None."""
    name = symbol.removesuffix("=")
    if name not in ("%", "+") or a.value.__class__ is not str or not _is_printable(a):
        return None
    if name == "+":
        return make_text(facts, join_texts, [a, b]) if b.value.__class__ is str else None
    is_tuple = b.items is not None and tuple in (b.type, b.value.__class__)
    return make_text(facts, interpolate, [a, *(b.items or ())] if is_tuple else [a, b])


def _is_printable(p: Provenance) -> bool:
    """Whether a value is a text or number that a program computes, or a plain constant."""
    return _varies(p) or (p.kind is Kind.PLAIN and not p.tainted and p.increment is None
                          and p.value.__class__ in PLAIN)


def _varies(p: Provenance) -> bool:
    """Whether a program computes a text or number anew in each call."""
    return p.text is not None or p.read.__class__ is Read or (
        p.symbol is not None and is_number(p.value))


def _iterate_numbers(x: Any) -> Iterator[Provenance]:
    if x.__class__ is Text:
        for part in x.parts:
            yield from _iterate_numbers(part)
    elif _varies(x):
        yield x


def _holds_for_all(text: Text, numbers: list[Provenance]) -> bool:
    """Whether making a text raises for none of the numbers that may come."""
    samples = {id(p): [x for kind in sorted(_list_classes(p), key=str) for x in _SAMPLES[kind]]
               for p in numbers}
    try:
        for k in range(max(map(len, samples.values()), default=1)):
            write_text(text, functools.partial(_take_sample, samples, k))
    except Exception:
        return False
    return True


def _take_sample(samples: dict[int, list[Any]], k: int, p: Provenance) -> Any:
    values = samples.get(id(p), [p.value])
    return values[k % len(values)]


def _list_classes(p: Provenance) -> set[type]:
    return {type(p.value)} if p.read is None else _list_classes_of_read(p.read)


def _list_classes_of_read(x: Any) -> set[type]:
    """Return the classes that a number may have."""
    if x.__class__ is not Read:
        return {type(evaluate(x))}
    if x.operation == "item":
        return {int if x.left._array.dtype.kind in "iu" else float}
    left = _list_classes_of_read(x.left)
    if x.operation in ("abs", "round"):
        return left
    right = _list_classes_of_read(x.right)
    if x.operation in ("min", "max"):
        return left | right
    return {int} if left == right == {int} and x.operation != "/" else {float}


def _read_value(p: Provenance) -> Any:
    return p.value if p.read is None else evaluate(p.read)


# ------------------------------------------------------------------------------------ prints


class Print(Store):
    """A print. `has_written`: whether the call has written to tensors since."""

    has_written: Callable[[], bool]
    numbers: tuple[Any, ...]

    def read(self, is_strict: bool) -> Any:
        """Return what the program passes to the PrintCall."""
        if self.has_written():
            raise NotProvedError("it prints, and then writes to tensors")
        return self.numbers


def note_print(
    facts: Facts, frame: Any, s: ShadowFrame, args: list[Provenance], named: dict[str, Provenance]
) -> Provenance:
    """Return the provenance of what `print` returns, and note that a program makes the call."""
    if _is_protected(facts, frame, s):
        raise NotProvedError("it prints within `try`, within `with`, or below the library")
    settings = {key: _read_setting(facts, key, p) for key, p in named.items()}
    if not all(map(_is_printable, args)):
        raise NotProvedError("it prints something other than text and numbers")
    facts.need(*(p for p in args if not _varies(p)))
    numbers: list[Provenance] = []
    shown = [_place_numbers(p.text or p, numbers) for p in args]
    call = PrintCall(print, shown, settings, facts.line, frame.f_code.co_name)
    effect = Print(Place(call, None), "what it prints", facts.line, [], after=facts.prints)
    effect.numbers = tuple(compute_before(facts, p) if p.read is None else p.read for p in numbers)
    effect.has_written = facts.watch_writes()
    _guard_stream(facts, named.get("file"))
    facts.prints += 1
    facts.stores[id(call), "print"] = effect
    return Provenance(Kind.PLAIN, None)


def _read_setting(facts: Facts, key: str, p: Provenance) -> Any:
    """Return the value of sep, end, flush or file, which is the same in each call."""
    is_stream = key == "file" and p.kind is Kind.OUTSIDE
    is_constant = p.kind is Kind.PLAIN and not p.tainted and p.value.__class__ in PLAIN
    if not (is_stream or is_constant) or key not in ("sep", "end", "flush", "file"):
        raise NotProvedError(f"it passes {key} of unknown origin to print()")
    facts.need(p)
    return p.value


def _place_numbers(x: Any, numbers: list[Provenance]) -> Any:
    """Return a text in which Slots replace numbers; append the numbers."""
    if x.__class__ is Text:
        return Text(x.function, tuple(_place_numbers(part, numbers) for part in x.parts))
    if not _varies(x):
        return x.value
    numbers.append(x)
    return Slot(len(numbers) - 1)


def _guard_stream(facts: Facts, file: Provenance | None) -> None:
    """Guard that print writes to a stream that runs no code of the step's own."""
    test = facts.constant(is_plain_stream)
    stream, path = sys.stdout, f"{facts.constant(sys)}.stdout"
    if file is not None and file.value is not None:
        stream, path = file.value, facts.path_of(file)
    if not is_plain_stream(stream):
        raise NotProvedError(f"it prints to a {type(stream).__name__}, which may run any code")
    facts.guard(f"{test}({path})", Test.TRUTH, True)


def is_plain_stream(stream: Any) -> bool:
    """Whether printing to a stream runs only C code."""
    if stream is None:
        return True  # print does nothing
    kinds: tuple[type, ...] = (io.StringIO,)
    if type(stream) is io.TextIOWrapper and _is_unchanged(stream):
        try:
            if stream.encoding.lower() not in _ENCODINGS or stream.errors not in _HANDLERS:
                return False
            stream, kinds = stream.buffer, (io.BytesIO, io.FileIO)
            if type(stream) in (io.BufferedWriter, io.BufferedRandom) and _is_unchanged(stream):
                stream = stream.raw
        except ValueError:  # detached
            return False
    return type(stream) in kinds and _is_unchanged(stream)


def _is_unchanged(stream: Any) -> bool:
    """Whether a stream has no methods of its own."""
    return not any(map(callable, getattr(stream, "__dict__", {}).values()))


def _is_protected(facts: Facts, frame: Any, s: ShadowFrame) -> bool:
    """Whether an exception of print would not go straight to the step's caller. Blocks of a grad
    mode in the frame that prints are left by the exception, too, and leave no trace."""
    shadow: ShadowFrame | None = s
    while frame is not facts.root:
        if is_in_library(frame.f_code) or _is_handled(frame.f_code, frame.f_lasti, shadow):
            return True
        frame, shadow = frame.f_back, None
    return False


def _is_handled(code: CodeType, offset: int, s: ShadowFrame | None) -> bool:
    """Whether code would handle an exception that is raised at an instruction."""
    instructions = decode_instructions(code)[0]
    entry = _find_handler(code, offset)
    if entry is None or instructions[entry.target].opname in HANDLERS_OF_EVERY_GENERATOR:
        return False
    start = instructions[min(n for n in instructions if n > entry.target)]
    if s is None or start.opname != "WITH_EXCEPT_START" or not _leaves_grad_mode(
            s.stack[entry.depth - 1]):
        return True
    cleanup = _find_handler(code, start.offset)  # from where the exception goes on
    return cleanup is None or _is_handled(code, min(
        n for n, i in instructions.items() if n > cleanup.target and i.opname == "RERAISE"), s)


def _find_handler(code: CodeType, offset: int) -> Any:
    """Return the entry of the exception table for an instruction, or None."""
    return next((entry for entry in decode_exception_table(code)
                 if entry.start <= offset < entry.end), None)


def _leaves_grad_mode(leave: Provenance) -> bool:
    """Whether an `__exit__` on the stack is that of a grad mode."""
    if not leave.items:
        return False
    entered = leave.items[0]
    return (entered.type or type(entered.value)) in _GRAD_MODES
