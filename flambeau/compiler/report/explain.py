"""Explain: where a compiled step spends its time, and its form after each compiler stage.

Levels: 1 the kernels with time, bytes, flops and share of the machine's limit; 2 the graph; 3 the
fusion groups; 4 the loops; 5 LLVM IR; 6 assembly. Each level includes those before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.graph import Graph, Node
from ..runtime.executable import Step
from .figures import StepFigures, measure_figures

TIMES, GRAPH, GROUPS, LOOPS, LLVM, ASSEMBLY = range(1, 7)


def explain(step: Step, values: Sequence[Any], level: int = TIMES) -> str:
    """Return a report on a step, up to a level. Runs the step and undoes its writes."""
    return "\n".join(explain_text(step, measure_figures(step, values), level))


def explain_text(step: Step, figures: StepFigures, level: int) -> Iterator[str]:
    """Yield the lines of a measured step's report."""
    yield from _format_times(figures)
    if level >= GRAPH:
        yield from ("", "graph", *format_graph(step.graph))
    if level >= GROUPS:
        yield from ("", "groups", *_group_lines(step))
    if level >= LOOPS:
        yield from ("", "loops", *_loop_lines(step))
    if level >= LLVM:
        yield from ("", *_format_machine_code(step, level))


def _format_times(result: StepFigures) -> Iterator[str]:
    lines, total = result.lines, result.total or 1.0
    flops, moved = sum(line.flops for line in lines), sum(line.bytes for line in lines)
    between = max(0.0, total - sum(line.seconds for line in lines))
    yield (f"{_count(len(lines), 'kernel')}, {total * 1e6:.0f} us on "
           f"{_count(result.threads, 'thread')} ({between / total:.0%} between kernels), "
           f"{flops / total / 1e9:.0f} GFLOP/s, {moved / total / 1e9:.1f} GB/s, "
           f"{result.least / total:.0%} of what the machine can do, "
           f"arena {result.arena / 1e6:.1f} MB")
    yield f"{'us':>9} {'predicted':>9} {'share':>6} {'MB':>8} {'Mflop':>9} {'of limit':>11}  kernel"
    for line in lines:
        others = len(line.origins) - (line.main in line.origins)
        origin = f"  {shorten_origin(line.main)}" + (f" and {others} more" if others else "")
        yield (f"{line.seconds * 1e6:9.1f} {line.predicted * 1e6:9.1f} "
               f"{line.seconds / total:6.1%} {line.bytes / 1e6:8.2f} "
               f"{line.flops / 1e6:9.2f} {line.limit:>11}  {line.name}{origin}")


def shorten_origin(origin: str) -> str:
    """Make the file of an origin relative to the working directory, if it is inside."""
    here = os.path.join(os.getcwd(), "")
    return origin.replace(f" at {here}", " at ")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def format_graph(graph: Graph) -> Iterator[str]:
    """Yield a graph as text, one node per line, inputs before users."""
    names: dict[int, str] = {}
    for k, node in enumerate(graph.nodes()):
        names[id(node)] = f"v{k}"
        origin = f"  # {node.origin}" if node.origin else ""
        yield f"v{k} = {_describe_node(node, names)}{origin}"
    for k, node in enumerate(graph.outputs):
        yield f"output {k}: {names[id(node)]}"
    for slot, node in graph.writes:
        name = graph.sources[slot].name or f"source {slot}"
        yield f"{name} becomes {names[id(node)]}"


def _describe_node(node: Node, names: dict[int, str]) -> str:
    read = [names[id(operand)] for operand in node.inputs]
    attributes = [f"{k}={getattr(v, 'name', v)}" for k, v in node.attributes.items()
                  if getattr(v, "size", 0) < 16]
    inside = ", ".join([*read, *attributes])
    return f"{node.op.name.lower()}({inside}) {node.type.value}{list(node.shape)}"


def _group_lines(step: Step) -> Iterator[str]:
    for group in step.layout.fusion.groups:
        folded = f" folding axes {list(group.axes)}" if group.axes else ""
        yield f"group {group.position} over {list(group.shape)}{folded}"
        for node in group.nodes:
            stored = "" if step.layout.targets(node) else " (not stored)"
            yield f"    {node!r}{stored}  {node.origin}"


def _loop_lines(step: Step) -> Iterator[str]:
    from ...native.loop_ir.printer import format_kernel

    for task in step.tasks:
        if task.kernel is not None:
            yield format_kernel(task.kernel)


def _format_machine_code(step: Step, level: int) -> Iterator[str]:
    from ...native.codegen.kernel import emit
    from ...native.target.machine import emit_assembly

    seen: set[str] = set()
    for task in step.tasks:
        if task.kernel is None:
            continue
        text = emit(task.kernel)
        if text not in seen:
            seen.add(text)
            yield text
            if level >= ASSEMBLY:
                yield emit_assembly(text)
