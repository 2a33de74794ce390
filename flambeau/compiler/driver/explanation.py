"""Explanation: which way the calls of a compiled function run, and what keeps them from another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compiled_function import Compiled

MAX_DYNAMIC_SPECIALIZATIONS = 32  # kinds of calls that have programs, with dynamic=True


def explained(compiled: Compiled, level: int, html: Any) -> str:
    """What `Compiled.explain` gives."""
    program = compiled._last
    if program is None or program not in compiled._programs:
        program = next(iter(compiled._programs), None)
    if program is None:
        text = state(compiled)
        if html is not None:
            raise RuntimeError(text)
        return text
    from ..report.summary import summarize

    notes = []
    if compiled._options.get("dynamic"):
        notes.append("dynamic=True: each combination of shapes has a program of its own, "
                     f"{len(compiled._programs)} of at most {compiled._max_specializations}")
    if compiled._followed is not None:
        notes.append(f"Other calls: {state(compiled)}")
    return summarize(program, compiled._name, level, html, "\n".join(notes))


def state(compiled: Compiled) -> str:
    """Which way calls without a program of their own run, and why."""
    followed, name = compiled._followed, compiled._name
    if followed is None or compiled._warned:
        return f"{name} has no program: {_why(compiled)}"
    python = f"its Python runs on every call, because {compiled._unskipped}"
    if not followed.trial.pays:
        return (f"{name} stays eager: following its calls does not pay, as "
                f"{followed.trial.outcome()}; {python}")
    return f"{name} is followed: {python}\n{followed.summary()}"


def _why(compiled: Compiled) -> str:
    if compiled._warned:
        return "; ".join(compiled._warned)
    if any(variant.pending is not None for variant in compiled._variants.values()):
        return "it is being made"
    return "it is made once a few calls have shown that they do the same"


def too_many(most: int) -> str:
    """What is told when there are more kinds of calls than may have programs."""
    limit = MAX_DYNAMIC_SPECIALIZATIONS
    more = "" if most >= limit else f"; dynamic=True allows {limit}"
    return (
        f"{most} kinds of calls (shapes, dtypes, plain arguments, flags) have programs "
        "of their own; others run without, until one of these is called no more. Pad inputs "
        f"to a few shapes, and pass numbers that change as tensors{more}."
    )
