"""Page: a session's results as one self-contained HTML file."""

from __future__ import annotations

import linecache
from html import escape
from pathlib import Path

from .charts import Curve, render_chart
from .finding import Finding, Place, format_value
from .report import count_findings, format_summary, list_titles
from .rules import all_rules
from .session import Session

_CONTEXT_LINES = 3  # of source shown before and after a finding's line
_KINDS = ("loss", "learning rate", "gradient norm", "update / weight", "dead units")


def render_page(session: Session) -> str:
    """Return the page as HTML."""
    template = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    sections = {
        "SUMMARY": escape(format_summary(session).removeprefix("doctor: ")),
        "BADGES": "".join(
            f"<span class='badge {level}'>{number} {level}</span>"
            for level, number in count_findings(session).items()
        ),
        "FINDINGS": "".join(_format_finding(f) for f in session.findings)
        or "<p class='none'>Nothing was found.</p>",
        "CURVES": _format_curves(session.curves),
        "CHECKS": _format_checks(session),
    }
    for name, section in sections.items():
        template = template.replace(f"<!--{name}-->", section, 1)
    return template


def _format_finding(finding: Finding) -> str:
    rule = all_rules()[finding.id]
    location = escape(finding.place.short) if finding.place else ""
    evidence = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(format_value(value))}</td></tr>"
        for name, value in finding.evidence.items()
    )
    sources = "".join(
        _format_source(place, first=i == 0) for i, place in enumerate(finding.places[:3])
    )
    return f"""<article class='{finding.level}'>
<h3><span class='badge {finding.level}'>{finding.level}</span> {escape(finding.what)}</h3>
<p class='where'><code>{location}</code> <code>{escape(finding.id)}</code></p>
{sources}
<p class='fix'><b>Fix</b> {escape(finding.fix)}</p>
{f"<table>{evidence}</table>" if evidence else ""}
<details><summary>Why</summary><p>{escape(rule.why)}</p>
<p>On purpose: <code># doctor: ok {escape(finding.id)}</code> on the line, or
<code>with doctor.intended("{escape(finding.id)}"):</code></p></details>
</article>"""


def _format_source(place: Place, first: bool) -> str:
    rows = []
    for number in range(max(1, place.line - _CONTEXT_LINES), place.line + _CONTEXT_LINES + 1):
        text = linecache.getline(place.file, number).rstrip("\n")
        if not text and number > place.line:
            continue
        mark = (" class='hit'" if first else " class='other'") if number == place.line else ""
        rows.append(f"<tr{mark}><td>{number}</td><td>{escape(text) or ' '}</td></tr>")
    caption = escape(f"{place.role or ('line to mend' if first else 'see also')}: {place.short}")
    return (f"<div class='caption'>{caption}</div>"
            f"<div class='source'><table>{''.join(rows)}</table></div>")


def _format_curves(curves: dict[str, list[tuple[int, float]]]) -> str:
    panels = []
    for chart in _KINDS:
        lines: dict[str, Curve] = {
            name.partition(": ")[2]: curve for name, curve in curves.items()
            if name.startswith(f"{chart}: ")
        }
        panels.append(render_chart(chart, lines))
    return "".join(panels) or "<p class='none'>No backward pass was seen.</p>"


def _format_checks(session: Session) -> str:
    titles, undecided = list_titles(), session.undecided()
    levels = {f.id: f.level for f in session.findings}
    rows = []
    for rule in sorted(session.rules, key=lambda r: (r.id not in levels, r.id in undecided, r.id)):
        id = rule.id
        level = levels.get(id)
        state = str(level) if level else "not judged" if id in undecided else "passed"
        style = str(level) if level else "undecided" if id in undecided else "passed"
        reason = escape(undecided.get(id, "")) if level is None else ""
        rows.append(f"<tr class='{style}'><td>{state}</td><td><code>{escape(id)}</code></td>"
                    f"<td>{escape(titles[id])}</td><td>{reason}</td></tr>")
    return f"<table class='checks'>{''.join(rows)}</table>"
