"""Kernels of recurrent layers: one packs the weights into panels, one runs all steps."""

from __future__ import annotations

from ...native.kernels.recurrent import (
    RecurrentExtents, RecurrentKernel as Recurrence, SequenceLayout, build_backward, build_forward,
    choose_block_rows, count_packed_elements, pack_weights,
)
from ...native.kernels.recurrent_cells import CELLS
from ...native.loop_ir.ir import Buffer, Constant, Kernel, Type
from ...native.runtime.thread_pool import threads
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion_group import FusionGroup
from ..fusion.placement import Home, Allocation, Place
from ..ir.graph import Node, Op
from ..ir.recurrence import get_inputs_by_name, get_extents

KernelWithMemory = tuple[str, Kernel, list[Allocation]]  # its name first


def build_recurrent_kernels(group: FusionGroup, layout: BufferAssignment) -> list[KernelWithMemory]:
    """Build the kernels of a group of one recurrent layer's nodes."""
    return _Layer(group.nodes, layout).kernels()


def count_recurrent_flops(group: FusionGroup) -> int:
    """The floating-point operations of the matrix products."""
    node = group.nodes[0]
    steps, rows, width = get_extents(node)
    return 2 * steps * rows * CELLS[node.cell].gates * width**2


class _Layer:
    """The layouts of a layer's operands and results over time."""

    def __init__(self, nodes: list[Node], layout: BufferAssignment) -> None:
        self.nodes, self.layout, self.node = nodes, layout, nodes[0]
        self.cell = CELLS[self.node.cell]
        self.steps, self.rows, self.width = get_extents(self.node)
        self.back = self.node.op is Op.RECURRENCE_GRADIENT
        self.descending = self.back != self.node.reverse  # from the last step to the first
        self.buffers: dict[int, Buffer] = {}
        self.memories: dict[Buffer, Allocation] = {}

    def kernels(self) -> list[KernelWithMemory]:
        """Build the two kernels: pack the weights, run the steps."""
        type = self.node.type
        rows = choose_block_rows(self.rows, threads())
        blocks = -(-self.rows // rows)
        is_full = rows * blocks == self.rows
        operands = get_inputs_by_name(self.node)
        weight = self.grid(self.layout.locate(operands.pop("w")), "w")
        packing = pack_weights(self.cell, self.width, weight, self.back)
        panels = self.memory(
            count_packed_elements(self.cell, self.width, type, self.back), "panels"
        )
        first = ("panels", packing, [self.memories[weight.buffer], panels])
        self.buffers, self.memories = {}, {}
        grids = {
            name: self.grid(self.layout.locate(operand), name) for name, operand in operands.items()
        }
        grids["panels"] = SequenceLayout(self.buffer(panels), 0)
        wanted = {node.of: [self.grid(place, node.of) for place in self.layout.targets(node)]
                  for node in self.nodes}
        count = RecurrentExtents(self.steps, self.width, rows, blocks,
                                 None if is_full else Constant(Type.I64, self.rows),
                                 Constant(Type.I64, self.steps - 1))
        result = (build_backward if self.back else build_forward)(self.cell, type, count, grids,
                                                                  wanted)
        memories = self.all_memories(result, blocks)
        return [first, (result.kernel.name, result.kernel, memories)]

    def all_memories(self, recurrence: Recurrence, blocks: int) -> list[Allocation]:
        """The allocation of each buffer of the second kernel."""
        for buffer, elements in recurrence.work.items():
            self.memories[buffer] = self.memory(elements * blocks, buffer.name)
        return [self.memories[buffer] for buffer in recurrence.kernel.buffers]

    def memory(self, elements: int, name: str) -> Allocation:
        return Allocation(Home.ARENA, self.node.type, elements, name=name)

    def buffer(self, memory: Allocation) -> Buffer:
        known = self.buffers.get(id(memory))
        if known is None:
            known = self.buffers[id(memory)] = Buffer(memory.type, f"b{len(self.buffers)}")
            self.memories[known] = memory
        return known

    def grid(self, place: Place, name: str) -> SequenceLayout:
        """The layout of a value, with steps in the order they are computed."""
        window = place.window
        strides = window.strides
        buffer, base = self.buffer(place.memory), window.offset
        if len(strides) == 1:
            return SequenceLayout(buffer, 0, 0, base, strides[0])
        if len(strides) == 2:
            return SequenceLayout(buffer, strides[0], 0, base, strides[1])
        step, row, column = strides
        if self.descending:
            base += step * (self.steps - 1)
            step = -step
        if name == "previous":
            base += step
        return SequenceLayout(buffer, row, step, base, column)
