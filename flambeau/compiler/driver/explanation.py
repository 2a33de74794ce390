"""Explanation: which way a compiled function's calls run, and what keeps them from a faster way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .eviction import MAX_DYNAMIC_SPECIALIZATIONS

if TYPE_CHECKING:
    from .compiled_function import Compiled


def write_explanation(compiled: Compiled, level: int, html: Any) -> str:
    """The text of `Compiled.explain`."""
    program = compiled._last
    if program is None or program not in compiled._programs:
        program = next(iter(compiled._programs), None)
    if program is None:
        text = describe_state(compiled)
        if html is not None:
            raise RuntimeError(text)
        return text
    from ..report.summary import summarize

    notes = []
    if compiled._options.get("dynamic"):
        notes.append("dynamic=True: each combination of shapes has a program of its own, "
                     f"{len(compiled._programs)} of at most {compiled._max_specializations}")
    if compiled._followed is not None:
        notes.append(f"Other calls: {describe_state(compiled)}")
    return summarize(program, compiled._name, level, html, "\n".join(notes))


def describe_state(compiled: Compiled) -> str:
    """How calls run that no program serves, and why."""
    followed, name = compiled._followed, compiled._name
    if followed is None or compiled._warned:
        return f"{name} has no program: {_explain_absence(compiled)}"
    python = f"its Python runs on every call, because {compiled._unskipped}"
    if not followed.trial.pays:
        return (f"{name} stays eager: following its calls does not pay, as "
                f"{followed.trial.outcome()}; {python}")
    return f"{name} is followed: {python}\n{followed.summary()}"


def _explain_absence(compiled: Compiled) -> str:
    if compiled._warned:
        return "; ".join(compiled._warned)
    if any(variant.pending is not None for variant in compiled._variants.values()):
        return "it is being made"
    return "it is made once a few calls have shown that they do the same"


def describe_limit(most: int) -> str:
    """The warning for more combinations of shapes and flags than may have programs."""
    limit = MAX_DYNAMIC_SPECIALIZATIONS
    more = "" if most >= limit else f"; dynamic=True allows {limit}"
    return (
        f"{most} kinds of calls (shapes, dtypes, plain arguments, flags) have programs "
        "of their own; others run without, until one of these is called no more. Pad inputs "
        f"to a few shapes, and pass numbers that change as tensors{more}."
    )
