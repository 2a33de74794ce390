"""A session's final report: the summary line, and JSON with a stable schema."""

from __future__ import annotations

import json
import sys
from typing import Any

from .finding import Finding, Level
from .rules import all_rules
from .session import Session

SCHEMA = 1  # incremented when a key changes meaning or is removed


def announce(finding: Finding) -> None:
    """Print a finding to standard error."""
    print(f"\n{finding.text()}", file=sys.stderr)


def count_findings(session: Session) -> dict[Level, int]:
    """Return the number of findings per level."""
    return {level: sum(f.level is level for f in session.findings) for level in Level}


def format_summary(session: Session) -> str:
    """Return one line: findings, passed checks, undecided checks and why, and the cost."""
    counts = count_findings(session)
    findings = [f"{n} {level}" + ("s" if level is Level.HINT and n != 1 else "")
             for level, n in counts.items() if n]
    undecided = session.undecided()
    reasons = sorted(set(undecided.values()), key=lambda r: -list(undecided.values()).count(r))
    clock = session.clock
    summary = f"doctor: {', '.join(findings) or 'nothing found'}; "
    summary += f"{len(session.passed())} checks passed"
    if undecided:
        listed = "; ".join(reasons[:3])
        summary += f", {len(undecided)} not judged ({listed}{', ...' if len(reasons) > 3 else ''})"
    summary += f"; watching cost {clock.spent_s:.2f} s of {clock.elapsed_s:.1f} s"
    if clock.suspended_at:
        summary += f" (close watching suspended at pass {clock.suspended_at[0]})"
    if session.error:
        summary += f"; the program ended with {session.error}"
    return summary


def as_dict(session: Session) -> dict[str, Any]:
    """Return a session's results as plain data. docs/doctor.md describes the schema."""
    from .. import __version__

    clock = session.clock
    return {
        "version": SCHEMA,
        "flambeau": __version__,
        "argv": list(sys.argv),
        "passes": clock.passes,
        "updates": session.updates,
        "seconds": round(clock.elapsed_s, 3),
        "seconds_watching": round(clock.spent_s, 3),
        "suspended_at": clock.suspended_at,
        "error": session.error,
        "findings": [finding.as_dict() for finding in session.findings],
        "passed": session.passed(),
        "undecided": [{"id": id, "reason": reason} for id, reason in session.undecided().items()],
        "off": sorted(session.off),
        "curves": {name: [list(point) for point in curve]
                   for name, curve in session.curves.items()},
    }


def as_json(session: Session) -> str:
    """Return `as_dict` as JSON text."""
    return json.dumps(as_dict(session), indent=1, default=str)


def list_titles() -> dict[str, str]:
    """Return the one-line title of each check, by id."""
    return {id: rule.title for id, rule in all_rules().items()}
