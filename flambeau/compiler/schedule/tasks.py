"""Task: one step of a program, a kernel on memory or a call of an eager function; their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ...native.codegen.loops.vectorization import suits_lanes
from ...native.loop_ir.ir import (
    Affine, Buffer, Kernel, Kind, Load, Loop, Prefetch, Statement, Store, expressions, statements,
    within,
)
from ...native.runtime.thread_pool import threads
from ...native.target.load_balance import FEW
from ..ir.graph import Graph, Node, Op
from ..fusion.fusion_group import ATTENTIONS, RECURRENCES, Group
from ..fusion.placement import Home, Memory, Place
from ..fusion.fusion import Fusion, fuse
from .horizontal_fusion import fuse_horizontally
from .kernel_order import order
from ..kernels.flash_attention import attention_flops, attention_kernels
from ..kernels.contraction import ContractionKernel
from ..fusion.buffer_assignment import Layout
from ..kernels.loop_nests import LoopKernel
from ..kernels.recurrent import recurrent_flops, recurrent_kernels
from ..kernels.data_movement import copy_kernel, special_kernels

WAITING = 1 << 14  # bytes of the arena that a kernel may hold while it waits for others
WIDE = 256  # elements of a joined kernel's loop that threads share
SMALL = 1 << 13  # elements (or multiply-adds / 16) below which one thread does a task alone


@dataclass(eq=False)
class Task:
    """A kernel with the memory of its buffers, or a CALL node.

    `offsets`: where in each memory its buffer begins, in elements. `work`: operations, roughly, in
    elements passed over. `origins`: operators and source lines.
    """

    name: str
    kernel: Kernel | None
    memories: list[Memory]
    offsets: list[int] = field(init=False)
    call: Node | None = None
    work: int = 0
    flops: int = 0
    origins: list[str] = field(default_factory=list)
    group: Group | None = None

    def __post_init__(self) -> None:
        self.offsets = [] if self.kernel is None else rebased(self.kernel)

    @property
    def serial(self) -> bool:
        """Whether it is too small to be shared out."""
        return self.work < alone(threads())


def alone(count: int) -> int:
    """Elements below which one of so many threads does a task alone."""
    return SMALL if count <= FEW else SMALL // 4


def rebased(kernel: Kernel) -> list[int]:
    """Moves each buffer's least position to 0, so that kernels which differ only in where they
    begin are one; gives where that is."""
    touched: dict[int, list[Load | Store | Prefetch]] = {id(one): [] for one in kernel.buffers}
    for one in accesses(kernel):
        if id(one.buffer) in touched:
            touched[id(one.buffer)].append(one)
    offsets = []
    for buffer in kernel.buffers:
        found = touched[id(buffer)]
        base = min((one.at.base for one in found if not isinstance(one, Prefetch)), default=0)
        base = 0 if buffer.parts is not None else base  # positions are those in a row
        offsets.append(base)
        for one in found if base else ():
            one.at = Affine(one.at.base - base, one.at.terms)
    return offsets


def accesses(kernel: Kernel) -> list[Load | Store | Prefetch]:
    """Every load, store and prefetch of a kernel, once."""
    inside = list(statements(kernel.body))
    roots = (one for statement in inside for one in expressions(statement))
    written = [one for one in inside if isinstance(one, Store | Prefetch)]
    return [*written, *(one for one in within(roots) if isinstance(one, Load))]


def schedule(graph: Graph) -> tuple[list[Task], Layout]:
    """The tasks of a graph, in an order in which they can run, and where values lie."""
    fusion = fuse(graph)
    layout = Layout(graph, fusion)
    tasks = [_copy(source, target) for source, target in layout.first]
    made = [_tasks(group, fusion, layout) for group in fusion.groups]
    ordered = order(fusion.groups, lambda g: _memories(made[g.position], layout))
    for groups in fuse_horizontally(ordered, lambda g: _is_small(made[g.position]),
                       lambda g: _is_plain(made[g.position])):  # fmt: skip
        found = [task for group in groups for task in made[group.position]]
        tasks += [joined(found)] if len(groups) > 1 else found
    return tasks + [_copy(source, target) for source, target in layout.copies], layout


def _is_small(tasks: list[Task]) -> bool:
    """Whether a group's kernel may wait for others that become one with it."""
    if not _is_loops(tasks) or tasks[0].work > 4 * SMALL:
        return False
    held = {id(one): one.bytes for one in tasks[0].memories if one.home is Home.ARENA}
    return sum(held.values()) <= WAITING


def _is_plain(tasks: list[Task]) -> bool:
    """Whether a group's kernel is pointwise work."""
    return _is_loops(tasks) and tasks[0].group is not None and not tasks[0].group.axes


def _is_loops(tasks: list[Task]) -> bool:
    group = tasks[0].group if len(tasks) == 1 else None
    return group is not None and group.special is None and group.contraction is None


def joined(tasks: Sequence[Task]) -> Task:
    """Kernels that do not wait for one another as one: its loops are theirs, one after another.

    What several read from the same place on is one argument.
    """
    found: dict[tuple[int, int], tuple[Buffer, Memory, int]] = {}
    body: list[Statement] = []
    serial = sum(task.work for task in tasks) < alone(threads())
    for task in tasks:
        assert task.kernel is not None
        instead: dict[int, Buffer] = {}
        rows = zip(task.kernel.buffers, task.memories, task.offsets, strict=True)
        for buffer, memory, offset in rows:
            buffer.name = f"b{len(found)}"
            known = found.setdefault((id(memory), offset), (buffer, memory, offset))
            instead[id(buffer)] = known[0]
        for one in accesses(task.kernel):
            one.buffer = instead.get(id(one.buffer), one.buffer)
        body += task.kernel.body
        if not serial:
            _share_out(task.kernel.body)
    buffers, memories, offsets = zip(*found.values(), strict=True)
    name = Counter(task.name for task in tasks).most_common(1)[0][0]
    groups = [task.group for task in tasks if task.group is not None]
    together = Group(groups[0].shape, nodes=[node for one in groups for node in one.nodes])
    made = Task(
        name, Kernel(name, [*buffers], body), [*memories],
        work=sum(task.work for task in tasks), flops=sum(task.flops for task in tasks),
        origins=list(dict.fromkeys(origin for task in tasks for origin in task.origins)),
        group=together,
    )  # fmt: skip
    made.offsets = [*offsets]
    return made


def _share_out(body: Sequence[Statement]) -> None:
    """Lets all threads take part in loops in lanes that are long, and need nothing from outside."""
    for loop in body if all(isinstance(one, Loop) for one in body) else ():
        assert isinstance(loop, Loop)
        wide = isinstance(loop.extent, int) and loop.extent >= WIDE
        if wide and loop.kind is Kind.LANES and suits_lanes(loop):
            loop.kind = Kind.PARALLEL


def task_memories(task: Task, layout: Layout) -> list[Memory]:
    """All that a task reads or writes."""
    if task.call is None:
        return task.memories
    read = [layout.seen(one).memory for one in task.call.inputs]
    return [*read, *(place.memory for place in layout.targets(task.call))]


def _memories(tasks: list[Task], layout: Layout) -> list[Memory]:
    return [memory for task in tasks for memory in task_memories(task, layout)]


def _copy(source: Place, target: Place) -> Task:
    kernel, memories = copy_kernel(source, target)
    return Task("copy", kernel, memories, work=prod(target.window.shape))


def _tasks(group: Group, fusion: Fusion, layout: Layout) -> list[Task]:
    origins = list(dict.fromkeys(node.origin for node in group.nodes if node.origin))
    if group.special is not None:
        node = group.special
        if node.op is Op.CALL:
            return [Task(f"call_{node.function.__name__}", None, [], node, origins=origins,
                         group=group)]  # fmt: skip
        if node.op in ATTENTIONS:
            kernels = attention_kernels(group, layout)
            flops = attention_flops(group)
            return [
                Task(kernel.name, kernel, memories, work=flops // 32, flops=flops // len(kernels),
                     origins=origins, group=group)
                for kernel, memories in kernels
            ]  # fmt: skip
        if node.op in RECURRENCES:
            panels, steps = recurrent_kernels(group, layout)
            flops, elements = recurrent_flops(group), panels[2][1].elements
            return [
                Task(*panels, work=elements, origins=origins, group=group),
                Task(*steps, work=flops // 32, flops=flops, origins=origins, group=group),
            ]
        return [
            Task(kernel.name, kernel, memories, work=prod(node.shape), origins=origins,
                 group=group)
            for kernel, memories in special_kernels(node, fusion, layout)
        ]
    if all(id(node) in layout.elsewhere for node in group.nodes):
        return []
    kind = LoopKernel if group.contraction is None else ContractionKernel
    writer = kind(group, fusion, layout)
    kernel = writer.kernel()
    memories = writer.values.memories
    work, flops = _work(group)
    if not any(layout.targets(node) for node in group.nodes):
        return []
    return [Task(kernel.name, kernel, memories, work=work, flops=flops, origins=origins,
                 group=group)]  # fmt: skip


def _work(group: Group) -> tuple[int, int]:
    """Elements passed over (multiply-adds counted in sixteens), and floating-point operations."""
    size = prod(group.shape)
    node = group.contraction
    if node is None:
        return size * max(1, len(group.nodes)), size * max(1, len(group.nodes))
    depth = node.inputs[0].shape[-1]
    if node.op is not Op.MATMUL:
        depth = prod(node.inputs[1].shape[:3]) // node.attributes.get("parts", 1)
    return size * depth // 16 + size, 2 * size * depth
