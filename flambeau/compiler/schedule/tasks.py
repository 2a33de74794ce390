"""Scheduling: turn fusion groups into tasks (kernels or eager calls) in running order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ...native.codegen.loops.vectorization import should_vectorize
from ...native.loop_ir.ir import (
    Affine, Buffer, Kernel, LoopKind, Load, Loop, Prefetch, Statement, Store, iterate_expressions,
    iterate_statements, iterate_subexpressions,
)
from ...native.runtime.thread_pool import threads
from ...native.target.graph_costs import (
    FLOPS_PER_WORK, MAX_DELAYED_BYTES, MIN_PARALLEL_ELEMENTS, MIN_PARALLEL_EXTENT,
)
from ...native.target.load_balance import TYPICAL_THREADS
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion import Fusion, fuse
from ..fusion.fusion_group import ATTENTIONS, RECURRENCES, FusionGroup
from ..fusion.placement import Home, Allocation, Place
from ..ir.graph import Graph, Node, Op
from ..kernels.contraction import ContractionKernel
from ..kernels.data_movement import build_special_kernels, copy_kernel
from ..kernels.flash_attention import build_attention_kernels, count_attention_flops
from ..kernels.loop_nests import LoopKernel
from ..kernels.recurrent import build_recurrent_kernels, count_recurrent_flops
from .horizontal_fusion import fuse_horizontally
from .kernel_order import order_kernels


@dataclass(eq=False)
class Task:
    """A kernel with the allocations of its buffers, or a CALL or CHECK node.

    `offsets`: the start of each buffer in its allocation, in elements. `work`: a rough cost in
    elements. `origins`: operators and source lines, for reports.
    """

    name: str
    kernel: Kernel | None
    memories: list[Allocation]
    offsets: list[int] = field(init=False)
    call: Node | None = None
    work: int = 0
    flops: int = 0
    origins: list[str] = field(default_factory=list)
    group: FusionGroup | None = None

    def __post_init__(self) -> None:
        self.offsets = [] if self.kernel is None else rebase_buffers(self.kernel)

    @property
    def serial(self) -> bool:
        """Whether the task is too small to run on several threads."""
        return self.work < compute_serial_limit(threads())


def compute_serial_limit(count: int) -> int:
    """The work below which a task runs on a single thread, out of `count`."""
    return MIN_PARALLEL_ELEMENTS if count <= TYPICAL_THREADS else MIN_PARALLEL_ELEMENTS // 4


def rebase_buffers(kernel: Kernel) -> list[int]:
    """Shift each buffer so that its lowest access is at 0; return the shifts.

    Kernels that differ only in their buffers' starts then share machine code.
    """
    touched: dict[int, list[Load | Store | Prefetch]] = {id(b): [] for b in kernel.buffers}
    for access in collect_memory_accesses(kernel):
        if id(access.buffer) in touched:
            touched[id(access.buffer)].append(access)
    offsets = []
    for buffer in kernel.buffers:
        accesses = touched[id(buffer)]
        base = min((a.at.base for a in accesses if not isinstance(a, Prefetch)), default=0)
        base = 0 if buffer.parts is not None else base  # positions are relative to a row of sums
        offsets.append(base)
        for access in accesses if base else ():
            access.at = Affine(access.at.base - base, access.at.terms)
    return offsets


def collect_memory_accesses(kernel: Kernel) -> list[Load | Store | Prefetch]:
    """Return every load, store and prefetch of a kernel, once."""
    body = list(iterate_statements(kernel.body))
    roots = (root for statement in body for root in iterate_expressions(statement))
    stores = [s for s in body if isinstance(s, Store | Prefetch)]
    return [*stores, *(load for load in iterate_subexpressions(roots) if isinstance(load, Load))]


def schedule(graph: Graph) -> tuple[list[Task], BufferAssignment]:
    """Return the tasks of a graph in running order, and where values lie."""
    fusion = fuse(graph)
    layout = BufferAssignment(graph, fusion)
    tasks = [_copy_task(source, target) for source, target in layout.first]
    by_group = [_make_tasks(group, fusion, layout) for group in fusion.groups]
    ordered = order_kernels(fusion.groups, lambda g: _list_memories(by_group[g.position], layout))
    merged = fuse_horizontally(ordered, lambda g: _can_wait(by_group[g.position]),
                               lambda g: _is_pointwise(by_group[g.position]))
    for groups in merged:
        members = [task for group in groups for task in by_group[group.position]]
        tasks += [merge_tasks(members)] if len(groups) > 1 else members
    return tasks + [_copy_task(source, target) for source, target in layout.copies], layout


def _can_wait(tasks: list[Task]) -> bool:
    """Whether a group's kernel is small enough to be delayed for horizontal fusion."""
    if not _is_loops(tasks) or tasks[0].work > 4 * MIN_PARALLEL_ELEMENTS:
        return False
    occupied = {id(m): m.bytes for m in tasks[0].memories if m.home is Home.ARENA}
    return sum(occupied.values()) <= MAX_DELAYED_BYTES


def _is_pointwise(tasks: list[Task]) -> bool:
    """Whether a group's kernel is pointwise work."""
    return _is_loops(tasks) and tasks[0].group is not None and not tasks[0].group.axes


def _is_loops(tasks: list[Task]) -> bool:
    group = tasks[0].group if len(tasks) == 1 else None
    return group is not None and group.special is None and group.contraction is None


def merge_tasks(tasks: Sequence[Task]) -> Task:
    """Merge independent kernels into one that runs their loops in sequence.

    Buffers at the same address become one argument.
    """
    # By (allocation, offset): the shared buffer.
    shared: dict[tuple[int, int], tuple[Buffer, Allocation, int]] = {}
    body: list[Statement] = []
    is_serial = sum(task.work for task in tasks) < compute_serial_limit(threads())
    for task in tasks:
        assert task.kernel is not None
        replacements: dict[int, Buffer] = {}
        rows = zip(task.kernel.buffers, task.memories, task.offsets, strict=True)
        for buffer, memory, offset in rows:
            buffer.name = f"b{len(shared)}"
            known = shared.setdefault((id(memory), offset), (buffer, memory, offset))
            replacements[id(buffer)] = known[0]
        for access in collect_memory_accesses(task.kernel):
            access.buffer = replacements.get(id(access.buffer), access.buffer)
        body += task.kernel.body
        if not is_serial:
            _parallelize(task.kernel.body)
    buffers, memories, offsets = zip(*shared.values(), strict=True)
    name = Counter(task.name for task in tasks).most_common(1)[0][0]
    groups = [task.group for task in tasks if task.group is not None]
    nodes = [node for group in groups for node in group.nodes]
    merged = Task(
        name, Kernel(name, [*buffers], body), [*memories],
        work=sum(task.work for task in tasks), flops=sum(task.flops for task in tasks),
        origins=list(dict.fromkeys(origin for task in tasks for origin in task.origins)),
        group=FusionGroup(groups[0].shape, nodes=nodes),
    )
    merged.offsets = [*offsets]
    return merged


def _parallelize(body: Sequence[Statement]) -> None:
    """Make long vector loops parallel, if a kernel consists only of loops."""
    for loop in body if all(isinstance(item, Loop) for item in body) else ():
        assert isinstance(loop, Loop)
        is_long = isinstance(loop.extent, int) and loop.extent >= MIN_PARALLEL_EXTENT
        if is_long and loop.kind is LoopKind.VECTORIZED and should_vectorize(loop):
            loop.kind = LoopKind.PARALLEL


def collect_task_memories(task: Task, layout: BufferAssignment | None) -> list[Allocation]:
    """The allocations that a task reads or writes."""
    if task.call is None:
        return task.memories
    assert layout is not None
    read = [layout.locate(operand).memory for operand in task.call.inputs]
    return [*read, *(place.memory for place in layout.targets(task.call))]


def _list_memories(tasks: list[Task], layout: BufferAssignment) -> list[Allocation]:
    return [memory for task in tasks for memory in collect_task_memories(task, layout)]


def _copy_task(source: Place, target: Place) -> Task:
    kernel, memories = copy_kernel(source, target)
    return Task("copy", kernel, memories, work=prod(target.window.shape))


def _make_tasks(group: FusionGroup, fusion: Fusion, layout: BufferAssignment) -> list[Task]:
    origins = list(dict.fromkeys(node.origin for node in group.nodes if node.origin))
    if group.special is not None:
        return _make_special_tasks(group, group.special, origins, fusion, layout)
    if all(id(node) in layout.elsewhere for node in group.nodes):
        return []
    builder_class = LoopKernel if group.contraction is None else ContractionKernel
    builder = builder_class(group, fusion, layout)
    kernel = builder.kernel()
    if not any(layout.targets(node) for node in group.nodes):
        return []
    work, flops = _estimate_work(group)
    return [Task(kernel.name, kernel, builder.values.memories, work=work, flops=flops,
                 origins=origins, group=group)]


def _make_special_tasks(
    group: FusionGroup, node: Node, origins: list[str], fusion: Fusion, layout: BufferAssignment
) -> list[Task]:
    """Return the tasks of an eager call, a check, attention, a recurrence or data movement."""
    if node.op in (Op.CALL, Op.CHECK):
        name = "check" if node.op is Op.CHECK else f"call_{node.function.__name__}"
        return [Task(name, None, [], node, origins=origins, group=group)]
    if node.op in ATTENTIONS:
        kernels = build_attention_kernels(group, layout)
        flops = count_attention_flops(group)
        return [
            Task(kernel.name, kernel, memories, work=flops // FLOPS_PER_WORK,
                 flops=flops // len(kernels), origins=origins, group=group)
            for kernel, memories in kernels
        ]
    if node.op in RECURRENCES:
        panels, steps = build_recurrent_kernels(group, layout)
        flops, elements = count_recurrent_flops(group), panels[2][1].elements
        return [
            Task(*panels, work=elements, origins=origins, group=group),
            Task(*steps, work=flops // FLOPS_PER_WORK, flops=flops, origins=origins, group=group),
        ]
    return [
        Task(kernel.name, kernel, memories, work=prod(node.shape), origins=origins, group=group)
        for kernel, memories in build_special_kernels(node, fusion, layout)
    ]


def _estimate_work(group: FusionGroup) -> tuple[int, int]:
    """Return (rough cost in elements, floating-point operations)."""
    size = prod(group.shape)
    node = group.contraction
    if node is None:
        return size * max(1, len(group.nodes)), size * max(1, len(group.nodes))
    depth = node.inputs[0].shape[-1]
    if node.op is not Op.MATMUL:
        depth = prod(node.inputs[1].shape[:3]) // node.attributes.get("parts", 1)
    flops = 2 * size * depth
    return flops // FLOPS_PER_WORK + size, flops
