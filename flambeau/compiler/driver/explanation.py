"""Explanations: how a compiled function's calls run, and why not faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ops.interception.code_patching import is_anything_observed

if TYPE_CHECKING:
    from .fallback import Fallback
    from .specializations import Specializations


def write_explanation(specializations: Specializations, fallback: Fallback, level: int,
                      html: Any = None) -> str:
    """Return the text of `Compiled.explain`."""
    program, programs = specializations.last, specializations.programs
    if program is None or program not in programs:
        program = next(iter(programs), None)
    if program is None:
        text = describe_state(specializations, fallback)
        if html is not None:
            raise RuntimeError(text)
        return text
    from ..report.summary import summarize

    notes = []
    if fallback.policy.is_dynamic:
        notes.append("dynamic=True: each combination of shapes has a program of its own, "
                     f"{len(programs)} of at most {specializations.max_specializations}")
    if fallback.followed is not None:
        notes.append(f"Other calls: {describe_state(specializations, fallback)}")
    return summarize(program, fallback.name, level, html, "\n".join(notes))


def describe_state(specializations: Specializations, fallback: Fallback) -> str:
    """Describe how calls without a program run, and why they have none."""
    followed, name = fallback.followed, fallback.name
    if followed is None or fallback.warnings:
        return f"{name} has no program: {_explain_absence(specializations, fallback)}"
    python = f"its Python runs on every call, because {fallback.reason}"
    if fallback.paths is not None:
        python = f"Python runs in some of its calls, because {fallback.reason}"
    if not followed.trial.pays:
        return (f"{name} stays eager: following its calls does not pay, as "
                f"{followed.trial.describe_outcome()}; {python}")
    if is_anything_observed():
        return (f"{name} is eager for now: functions of the library are replaced (by a profile, "
                f"forward-mode derivatives), above which calls are not followed; {python}")
    return f"{name} is followed: {python}\n{followed.summary()}"


def _explain_absence(specializations: Specializations, fallback: Fallback) -> str:
    if fallback.warnings:
        return "; ".join(fallback.warnings)
    if specializations.list_builds():
        return "it is being built"
    return "it is made once a few calls have shown that they do the same"
