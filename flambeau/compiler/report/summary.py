"""Summary: what `compiled.explain()` returns, text or page, about the last call's program.

A program is measured with the arguments of the call that it was made from. Parameters, states,
counters and the random generator are restored afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...native.loop_ir.numpy_forms import dtype_of
from ..runtime.executable import Step
from ..runtime.guarded_call import Program
from ..trace import bindings as bind
from .explain import GRAPH, explain_text, format_graph
from .figures import StepFigures, measure_figures

MAX_LEVEL = 6


class Explanation(str):
    """A report: consoles print its text, notebooks show its page."""

    page: str | None

    def __new__(cls, text: str, page: str | None = None) -> Self:
        """`page`: the HTML page, if there is one."""
        result = super().__new__(cls, text)
        result.page = page
        return result

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        if self.page is None:
            return f"<pre>{escape(str(self))}</pre>"
        # An iframe: its styles and scripts do not affect the notebook.
        return (
            f'<iframe srcdoc="{escape(self.page)}" width="100%" height="760" title="explain" '
            'style="border: 1px solid #ddd; border-radius: 8px"></iframe>'
        )


def summarize(
    program: Program, name: str, level: int, html: Any, note: str = ""
) -> Explanation:
    """Return the report; `note` is its last line. If `html` names a file, write the page there."""
    if not 1 <= level <= MAX_LEVEL:
        raise ValueError(f"explain expects a level from 1 to {MAX_LEVEL}, got {level}")
    if not isinstance(program.step, Step):
        lines = ["the graph is run in NumPy: there are no kernels"]
        lines += format_graph(program.step.graph) if level >= GRAPH else []
        if html is not None:
            raise RuntimeError(f"no page of {name}: {lines[0]}")
        return Explanation("\n".join(lines))
    with program.lock:
        result = list(measure(program, name))
    from .page import render_page

    drawn = render_page([first for _, first in result], name, program.bindings.calls)
    if html is not None:
        Path(html).write_text(drawn, encoding="utf-8")
    lines = []
    for step, figures in result:
        lines += [f"{figures.title}: " + line if i == 0 else line
                  for i, line in enumerate(explain_text(step, figures, level))]
    lines += [f"runs as it is: {call}" for call in program.bindings.calls]
    lines.append(f"Python is skipped: proved harmless, {len(program.proof.guards)} guards a call")
    lines += [note] if note else []
    return Explanation("\n".join(lines), drawn)


def measure(program: Program, name: str) -> Iterator[tuple[Step, StepFigures]]:
    """Yield (step, figures), and the same for a separate backward program."""
    bindings, step = program.bindings, program.step
    values = [program.sample.value(slot) for slot in bindings.slots]
    inputs = [values[k] for k in step.changing]
    yield step, measure_figures(step, inputs, name)
    if program.backward is None:
        return
    with step.restoring_writes(inputs):
        start = lambda part, table: part.run(table, step.count())  # noqa: E731
        outputs = step.run_parts(inputs, start, check=lambda *_: None)
    usual = program.backward.bindings.usual
    second = program.backward.usual.step
    values = []
    for k in second.changing:
        slot = program.backward.bindings.slots[usual.slots[k]]
        source = second.graph.sources[k]
        if isinstance(slot, bind.SavedForBackward):
            values.append(outputs[slot.number])
        elif isinstance(slot, bind.Cotangent):
            values.append(np.ones(source.shape, dtype_of(source.type)))
        else:
            values.append(program.sample.value(slot))
    yield second, measure_figures(second, values, f"{name}, backward")
