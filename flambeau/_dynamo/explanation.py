"""torch._dynamo.explain: where a function's Python reads values that its operators compute.

There PyTorch's graphs end. flambeau follows the function across such places; what it makes of the
function `torch.compile(f).explain()` tells.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..compiler.capture.capture import capture
from ..compiler.ir.reasons import Advice, Reason
from ..compiler.trace.trace import CALL, DRAW, OPERATOR, Trace
from ..native.foundation.user_frames import warn


@dataclass
class GraphCompileReason:
    """Why a graph ended."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    graph_break: bool = True


@dataclass
class ExplainOutput:
    """What `explain` found."""

    graph_count: int
    graph_break_count: int
    break_reasons: list[GraphCompileReason]
    op_count: int
    ops_per_graph: list[list[Any]] | None = None
    out_guards: list[Any] | None = field(default_factory=list)
    compile_times: str | None = None

    @property
    def graphs(self) -> list[Any]:
        raise NotImplementedError(
            "torch._dynamo.explain(...).graphs is not implemented in flambeau: programs have no "
            "graphs of torch.fx; torch.fx.symbolic_trace and torch.export make them")

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}",
                 f"Graph Break Count: {self.graph_break_count}", f"Op Count: {self.op_count}",
                 "Break Reasons:"]
        for i, stop in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {i}:", f"    Reason: {stop.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in stop.user_stack]
        if self.ops_per_graph is not None:
            lines.append("Ops per Graph:")
            for i, operators in enumerate(self.ops_per_graph, 1):
                lines += [f"  Ops {i}:", *[f"    {operator}" for operator in operators]]
        return "\n".join(lines) + "\n"


def explain(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Return a function that calls `f` once and reports where graphs of its operators would end.

    >>> from flambeau import _dynamo
    >>> _dynamo.explain(lambda x: (x + 1).relu())(torch.ones(2)).graph_break_count
    0
    """
    def run(*args: Any, **kwargs: Any) -> ExplainOutput:
        _, trace = capture(f, args, kwargs, values=False)
        if trace is None:
            raise NotImplementedError(
                "torch._dynamo.explain inside of a compiled function, or of a function with sparse "
                "arguments, is not implemented in flambeau")
        return _describe(trace)

    if not extra_args and not extra_kwargs:
        return run
    warn("explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs) instead.  If "
         "you don't migrate, we may break your explain call in the future if your user defined "
         "kwargs conflict with future kwargs added to explain(f).", FutureWarning)
    return run(*extra_args, **extra_kwargs)


def _describe(trace: Trace) -> ExplainOutput:
    """Split the operators at the places where Python read values."""
    groups: list[list[Any]] = [[]]
    reasons: list[GraphCompileReason] = []
    stops = [(place, *problem) for place, problem in
             zip(trace.problem_places, trace.problems, strict=True) if _ends_graph(problem[0])]
    for i, event in enumerate(trace.events):
        while stops and stops[0][0] <= i:
            _, reason, line = stops.pop(0)
            reasons.append(GraphCompileReason(str(reason), _locate(line)))
            if groups[-1]:
                groups.append([])
        if event.kind in (OPERATOR, CALL, DRAW):
            groups[-1].append(event.name)
    reasons += [GraphCompileReason(str(reason), _locate(line)) for _, reason, line in stops]
    graphs = [group for group in groups if group]
    return ExplainOutput(len(graphs), len(graphs) - 1, reasons, sum(map(len, graphs)), graphs)


def _ends_graph(reason: str) -> bool:
    """Whether a recorder's problem is a read of values, and not one of the recorder alone."""
    return isinstance(reason, Reason) and reason.advice in (
        Advice.READ_OUTSIDE, Advice.DECIDE_OUTSIDE) or "depends on values" in reason


def _locate(line: str) -> list[traceback.FrameSummary]:
    name, _, number = line.rpartition(":")
    return [traceback.FrameSummary(name, int(number), "")] if number.isdigit() else []
