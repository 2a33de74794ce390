"""Explain: where a compiled step spends its time, and what it was made into, stage by stage.

Levels: 1 the kernels with time, bytes, flops and share of the machine's limit; 2 the graph; 3 the
fusion groups; 4 the loops; 5 LLVM IR; 6 assembly. Each level shows what those before it do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..native.limits import limits
from .graph import Graph, Node
from .memory import Memory
from .schedule.task import Task
from .step import Step

TIMES, GRAPH, GROUPS, LOOPS, LLVM, ASSEMBLY = range(1, 7)


@dataclass(frozen=True)
class Line:
    """A kernel's figures. `share`: of the time that its flops or bytes would take at the least."""

    name: str
    seconds: float
    bytes: int
    flops: int
    share: float
    bound: str
    origins: tuple[str, ...]


def figures(step: Step, values: Sequence[Any]) -> list[Line]:
    """Each task's time beside what the machine could do at best."""
    threads = step.threads or _threads()
    most_flops, most_bytes = limits(threads)
    found = []
    for task, seconds in zip(step.tasks, step.timed(values), strict=True):
        moved = _moved(task)
        least_flops, least_bytes = task.flops / most_flops, moved / most_bytes
        bound = "flops" if least_flops > least_bytes else "bytes"
        share = max(least_flops, least_bytes) / seconds if seconds else 0.0
        found.append(Line(task.name, seconds, moved, task.flops, share, bound,
                          tuple(task.origins)))  # fmt: skip
    return found


def _threads() -> int:
    from ..native.pool import POOL

    return POOL.threads()


def _moved(task: Task) -> int:
    """Bytes of all that a task reads or writes, each once."""
    unique: dict[int, Memory] = {id(memory): memory for memory in task.memories}
    return sum(memory.bytes for memory in unique.values())


def explain(step: Step, values: Sequence[Any], level: int = TIMES) -> str:
    """A text about a step, up to a level."""
    lines = list(_times(figures(step, values), step))
    if level >= GRAPH:
        lines += ["", "graph", *graph_lines(step.graph)]
    if level >= GROUPS:
        lines += ["", "groups", *_group_lines(step)]
    if level >= LOOPS:
        lines += ["", "loops", *_loop_lines(step)]
    if level >= LLVM:
        lines += ["", *_machine_lines(step, level)]
    return "\n".join(lines)


def _times(found: Sequence[Line], step: Step) -> Iterator[str]:
    total = sum(line.seconds for line in found) or 1.0
    flops, moved = sum(line.flops for line in found), sum(line.bytes for line in found)
    yield (f"{len(found)} kernels, {total * 1e6:.0f} us on {step.threads or _threads()} threads, "
           f"{flops / total / 1e9:.0f} GFLOP/s, {moved / total / 1e9:.1f} GB/s, "
           f"arena {step.plan.size / 1e6:.1f} MB")  # fmt: skip
    yield f"{'us':>9} {'share':>6} {'MB':>8} {'Mflop':>9} {'of limit':>9}  kernel"
    for line in found:
        origin = f"  {line.origins[0]}" if line.origins else ""
        limit = "cached" if line.share > 1 else f"{line.share:4.0%} {line.bound}"
        yield (f"{line.seconds * 1e6:9.1f} {line.seconds / total:6.1%} {line.bytes / 1e6:8.2f} "
               f"{line.flops / 1e6:9.2f} {limit:>9}  {line.name}{origin}")  # fmt: skip


def graph_lines(graph: Graph) -> Iterator[str]:
    """A graph as text, a node a line, inputs before users."""
    names: dict[int, str] = {}
    for k, node in enumerate(graph.nodes()):
        names[id(node)] = f"v{k}"
        yield f"v{k} = {_said(node, names)}" + (f"  # {node.origin}" if node.origin else "")
    for k, node in enumerate(graph.outputs):
        yield f"output {k}: {names[id(node)]}"
    for slot, node in graph.writes:
        name = graph.sources[slot].name or f"source {slot}"
        yield f"{name} becomes {names[id(node)]}"


def _said(node: Node, names: dict[int, str]) -> str:
    read = [names[id(one)] for one in node.inputs]
    attributes = [f"{k}={getattr(v, 'name', v)}" for k, v in node.attributes.items()
                  if getattr(v, "size", 0) < 16]  # fmt: skip
    inside = ", ".join([*read, *attributes])
    return f"{node.op.name.lower()}({inside}) {node.type.value}{list(node.shape)}"


def _group_lines(step: Step) -> Iterator[str]:
    for group in step.layout.fusion.groups:
        folded = f" folding axes {list(group.axes)}" if group.axes else ""
        yield f"group {group.position} over {list(group.shape)}{folded}"
        for node in group.nodes:
            kept = "" if step.layout.targets(node) else " (not stored)"
            yield f"    {node!r}{kept}  {node.origin}"


def _loop_lines(step: Step) -> Iterator[str]:
    from ..native.show import show

    for task in step.tasks:
        if task.kernel is not None:
            yield show(task.kernel)


def _machine_lines(step: Step, level: int) -> Iterator[str]:
    from ..native.emit.kernel import emit
    from ..native.target import assembly

    seen: set[str] = set()
    for task in step.tasks:
        if task.kernel is None:
            continue
        text = emit(task.kernel)
        if text not in seen:
            seen.add(text)
            yield text if level == LLVM else assembly(text)
