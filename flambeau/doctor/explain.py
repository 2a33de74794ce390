"""`flambeau explain ID`: a check's documentation entry, for the terminal."""

from __future__ import annotations

import difflib

from .programs import remove_marks
from .rules import all_rules
from .rules.rule import Rule


def read_entry(rule: type[Rule]) -> str:
    """Return a check's section of docs/doctor.md."""
    return "\n".join([
        f"### {rule.id}",
        "",
        f"*{rule.level}.* {rule.title[0].upper()}{rule.title[1:]}.",
        "",
        rule.why,
        "",
        f"**Fix:** {rule.fix}",
        "",
        "```py",
        remove_marks(rule.broken),
        "```",
        "",
        "Without the mistake:",
        "",
        "```py",
        remove_marks(rule.fixed),
        "```",
    ])


def explain(id: str) -> str:
    """Return a check's documentation entry. Raise ValueError naming similar ids if it is unknown.

    >>> from flambeau import doctor
    >>> print(doctor.explain("no-zero-grad").splitlines()[0])
    ### no-zero-grad
    """
    rules = all_rules()
    if id not in rules:
        matches = difflib.get_close_matches(id, rules, 3, 0.4)
        hint = f"; did you mean {' or '.join(matches)}?" if matches else ""
        raise ValueError(f"no check is called {id!r}{hint}")
    return read_entry(rules[id])
