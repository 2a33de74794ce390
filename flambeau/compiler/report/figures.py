"""Figures: each kernel's cost and bottleneck, and the part of the program that it computes.

A kernel is bound by "flops", by "memory", by neither because its data are "cached" (faster than
memory), by "waiting" for one of the threads, or "eager": a function call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...native.runtime.roofline import measure_peaks
from ...native.target.graph_costs import predict_seconds
from ..fusion.fusion_group import iterate_fused_nodes
from ..fusion.placement import Allocation
from ..ir.graph import Graph, Node, Op
from ..runtime.executable import Step
from ..runtime.step_timing import time_step
from ..schedule.tasks import Task

PHASES = ("forward", "backward", "update")
BOUNDS = ("flops", "memory", "cached", "waiting", "eager")
MIN_BUSY_SHARE = 0.6  # kernels whose threads are busy for less are "waiting"


@dataclass(frozen=True)
class KernelFigures:
    """A kernel's figures.

    `predicted`: seconds that the cost model expects for its flops and bytes at the machine's
    limits. `share`: the fraction of its time that its flops, or its bytes unless cached, need at
    least. `busy`: the mean share of time that threads work. `main`: the most informative of
    `origins`. `code`: equal for kernels that share a function; -1 for eager calls.
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
        """The share of the limit, as text."""
        return "eager" if self.bound == "eager" else f"{self.share:.0%} {self.bound}"


@dataclass(frozen=True)
class StepFigures:
    """A step's figures: total seconds with barriers, a line per task, arena bytes, threads."""

    total: float
    lines: list[KernelFigures]
    arena: int
    threads: int
    limits: tuple[float, float]  # flops and bytes per second
    title: str = ""
    tasks: list[Task] = field(default_factory=list)

    @property
    def least(self) -> float:
        """Seconds that the kernels would take at the machine's limits."""
        return sum(line.seconds * line.share for line in self.lines)


def measure_figures(step: Step, values: Sequence[Any], title: str = "") -> StepFigures:
    """Measure each task and compare it with the machine's limits. The step's writes are undone."""
    threads = step.count()
    peaks = measure_peaks(threads)
    times = time_step(step, values)
    phases, node_numbers = assign_phases(step.graph), {id(n): i for i,
                                                       n in enumerate(step.graph.nodes())}
    lines: list[KernelFigures] = []
    codes: dict[int, int] = {}
    for k, task in enumerate(step.tasks):
        seconds, busy = times.seconds[k], times.busy[k] if threads > 1 else 1.0
        moved = _count_bytes_moved(task)
        share, bound = _find_bound(task, moved / peaks[1], task.flops / peaks[0], seconds, busy)
        code = codes.setdefault(step.addresses[k], len(codes)) if step.addresses[k] else -1
        before = lines[-1].phase if lines else PHASES[0]
        predicted = predict_seconds(task.flops, moved, peaks)
        phase = _find_phase(task, phases) or before
        lines.append(KernelFigures(
            task.name, seconds, predicted, moved, task.flops, share, bound, busy, phase,
            collect_origins(task, step, node_numbers), _find_main_origin(task), code,
        ))
    return StepFigures(times.total, lines, step.plan.size, threads, peaks, title, step.tasks)


def _find_bound(
    task: Task, memory: float, flops: float, seconds: float, busy: float
) -> tuple[float, str]:
    """Return (share, bound) of a task from the least seconds that its bytes and flops take."""
    if task.kernel is None or not seconds:
        return 0.0, "eager" if task.kernel is None else "cached"
    cached = memory > seconds
    share = min(1.0, (flops if cached else max(flops, memory)) / seconds)
    if busy < MIN_BUSY_SHARE and share < MIN_BUSY_SHARE:
        return share, "waiting"
    if cached and share < MIN_BUSY_SHARE:
        return share, "cached"
    return share, "flops" if cached or flops > memory else "memory"


def _count_bytes_moved(task: Task) -> int:
    """Return the bytes of all buffers that a task reads or writes, each counted once."""
    unique: dict[int, Allocation] = {id(memory): memory for memory in task.memories}
    return sum(memory.bytes for memory in unique.values())


# ------------------------------------------------------------------------------- where from


def collect_origins(task: Task, step: Step, node_numbers: dict[int, int]) -> tuple[str, ...]:
    """Return operators and source lines of everything a task computes, in graph order."""
    if task.group is None:
        return tuple(task.origins)
    materialized = step.layout.fusion.materialized
    nodes = {
        id(item): item for node in task.group.nodes
        for item in iterate_fused_nodes(node, materialized)
    }
    inside = sorted(nodes.values(), key=lambda node: node_numbers.get(id(node), 0))
    result = dict.fromkeys(node.origin for node in inside if not _is_input_or_constant(node))
    return tuple(item for item in result if " at " in item) or tuple(filter(None, result))


def _is_input_or_constant(node: Node) -> bool:
    """Whether a node is not computed. A shared constant only has its first user's origin."""
    sources = (Op.INPUT, Op.CONSTANT)
    return node.op in sources or (
        bool(node.inputs) and all(x.op is Op.CONSTANT for x in node.inputs)
    )


def _find_main_origin(task: Task) -> str:
    """Return the origin of a task's matrix product or special node, else of its last value."""
    if task.group is None:
        return ""
    main = task.group.contraction or task.group.special
    nodes = [main] if main is not None else task.group.nodes[::-1]
    return next((node.origin for node in nodes if node.origin), "")


def assign_phases(graph: Graph) -> dict[int, int]:
    """Return node id -> index in PHASES; nodes without an origin inherit that of their operands."""
    result: dict[int, int] = {}
    for node in graph.nodes():
        if not node.origin or node.op in (Op.INPUT, Op.CONSTANT):
            result[id(node)] = max((result[id(operand)] for operand in node.inputs), default=0)
        elif node.origin.startswith("update "):
            result[id(node)] = 2
        else:
            result[id(node)] = int("(backward)" in node.origin)
    return result


def _find_phase(task: Task, phases: dict[int, int]) -> str | None:
    """Return the phase of a task's main node, else the most common one of its values."""
    if task.group is None:
        return None
    main = task.group.contraction or task.group.special
    nodes = [main] if main is not None else task.group.nodes
    result = [phases[id(node)] for node in nodes if id(node) in phases]
    return PHASES[max(set(result), key=result.count)] if result else None
