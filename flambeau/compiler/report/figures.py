"""Figures: what each kernel of a step costs, what bounds it, and what of the program it computes.

A kernel is bound by "flops", by "memory", by neither since its data are "cached" (they come faster
than memory gives them), by "waiting" for one of the threads, or "eager": a call of a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...native.runtime.roofline import measure_peaks
from ...native.target.graph_costs import predict_seconds
from ..fusion.fusion_group import fused_nodes
from ..fusion.placement import Allocation
from ..ir.graph import Graph, Node, Op
from ..runtime.executable import Step
from ..runtime.step_timing import time_step
from ..schedule.tasks import Task

PHASES = ("forward", "backward", "update")
BOUNDS = ("flops", "memory", "cached", "waiting", "eager")
MIN_BUSY_SHARE = 0.6  # the threads' share at work below which a kernel counts as waiting


@dataclass(frozen=True)
class KernelFigures:
    """A kernel's figures.

    `predicted`: seconds that the cost model expects of its flops and bytes at the machine's limits.
    `share`: of its time what its flops, or its bytes unless they come from caches, take at least.
    `busy`: the threads' mean share of the time at work. `main`: the one of `origins` that says
    most. `code`: the same for kernels that are the same function; -1 for eager calls.
    """

    name: str
    seconds: float
    predicted: float
    bytes: int
    flops: int
    share: float
    bound: str
    busy: float
    phase: str
    origins: tuple[str, ...]
    main: str
    code: int

    @property
    def limit(self) -> str:
        """The share of the limit, for people."""
        return "eager" if self.bound == "eager" else f"{self.share:.0%} {self.bound}"


@dataclass(frozen=True)
class StepFigures:
    """A step's figures: seconds in all, barriers too; a line a task; arena bytes; threads."""

    total: float
    lines: list[KernelFigures]
    arena: int
    threads: int
    limits: tuple[float, float]  # flops and bytes a second
    title: str = ""
    tasks: list[Task] = field(default_factory=list)

    @property
    def least(self) -> float:
        """Seconds that the kernels take at the machine's limits."""
        return sum(line.seconds * line.share for line in self.lines)


def measure_figures(step: Step, values: Sequence[Any], title: str = "") -> StepFigures:
    """Each task's time beside what the machine could do at best. The step runs, and changes
    nothing."""
    threads = step.count()
    most = measure_peaks(threads)
    times = time_step(step, values)
    phases, places = phases_of(step.graph), {id(n): i for i, n in enumerate(step.graph.nodes())}
    lines: list[KernelFigures] = []
    codes: dict[int, int] = {}
    for k, task in enumerate(step.tasks):
        seconds, busy = times.seconds[k], times.busy[k] if threads > 1 else 1.0
        moved = _moved(task)
        share, bound = _bound(task, moved / most[1], task.flops / most[0], seconds, busy)
        code = codes.setdefault(step.addresses[k], len(codes)) if step.addresses[k] else -1
        before = lines[-1].phase if lines else PHASES[0]
        predicted = predict_seconds(task.flops, moved, most)
        phase = _phase(task, phases) or before
        lines.append(KernelFigures(
            task.name, seconds, predicted, moved, task.flops, share, bound, busy, phase,
            origins(task, step, places), _main(task), code,
        ))
    return StepFigures(times.total, lines, step.plan.size, threads, most, title, step.tasks)


def _bound(
    task: Task, memory: float, flops: float, seconds: float, busy: float
) -> tuple[float, str]:
    """What bounds a task and the share of it, from the least seconds for its bytes and flops."""
    if task.kernel is None or not seconds:
        return 0.0, "eager" if task.kernel is None else "cached"
    cached = memory > seconds
    share = min(1.0, (flops if cached else max(flops, memory)) / seconds)
    if busy < MIN_BUSY_SHARE and share < MIN_BUSY_SHARE:
        return share, "waiting"
    if cached and share < MIN_BUSY_SHARE:
        return share, "cached"
    return share, "flops" if cached or flops > memory else "memory"


def _moved(task: Task) -> int:
    """Bytes of all that a task reads or writes, each once."""
    unique: dict[int, Allocation] = {id(memory): memory for memory in task.memories}
    return sum(memory.bytes for memory in unique.values())


# ------------------------------------------------------------------------------- where from


def origins(task: Task, step: Step, places: dict[int, int]) -> tuple[str, ...]:
    """Operators and source lines of all that a task computes, in the order of the graph."""
    if task.group is None:
        return tuple(task.origins)
    materialized = step.layout.fusion.materialized
    nodes = {
        id(item): item for node in task.group.nodes for item in fused_nodes(node, materialized)
    }
    inside = sorted(nodes.values(), key=lambda node: places.get(id(node), 0))
    result = dict.fromkeys(node.origin for node in inside if not _is_input_or_constant(node))
    return tuple(item for item in result if " at " in item) or tuple(filter(None, result))


def _is_input_or_constant(node: Node) -> bool:
    """Whether nothing computes it. A constant serves all that use it: its origin is the first's."""
    sources = (Op.INPUT, Op.CONSTANT)
    return node.op in sources or (
        bool(node.inputs) and all(x.op is Op.CONSTANT for x in node.inputs)
    )


def _main(task: Task) -> str:
    """The origin of a task's product, else of its last value."""
    if task.group is None:
        return ""
    main = task.group.contraction or task.group.special
    nodes = [main] if main is not None else task.group.nodes[::-1]
    return next((node.origin for node in nodes if node.origin), "")


def phases_of(graph: Graph) -> dict[int, int]:
    """By id of a node, its place in PHASES; without an origin that of what it reads."""
    result: dict[int, int] = {}
    for node in graph.nodes():
        if not node.origin or node.op in (Op.INPUT, Op.CONSTANT):
            result[id(node)] = max((result[id(operand)] for operand in node.inputs), default=0)
        elif node.origin.startswith("update "):
            result[id(node)] = 2
        else:
            result[id(node)] = int("(backward)" in node.origin)
    return result


def _phase(task: Task, phases: dict[int, int]) -> str | None:
    """A product's phase, else that of most of a kernel's values."""
    if task.group is None:
        return None
    main = task.group.contraction or task.group.special
    nodes = [main] if main is not None else task.group.nodes
    result = [phases[id(node)] for node in nodes if id(node) in phases]
    return PHASES[max(set(result), key=result.count)] if result else None
