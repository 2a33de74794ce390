"""BufferAssignment: the memory of each materialized value, and any copies it needs."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir.axis_order import invert_permutation
from ..ir.exchange import EXCHANGE_TURN, LATE, find_replaced_operand
from ..ir.graph import Graph, Node, Op
from ..ir.strided_view import StridedView, view_source, make_contiguous_view
from .fusion import Fusion, is_blocked_transpose
from .fusion_group import MULTI_RESULT, FusionGroup, reshape_chain, view_through
from .placement import Home, Allocation, Place, allocate_in_arena

STRIDED_WRITERS = MULTI_RESULT | {Op.CONCAT}  # special nodes that can write through strides


class BufferAssignment:
    """The places of values. Values that only their own kernel reads have none."""

    def __init__(self, graph: Graph, fusion: Fusion) -> None:
        self.graph, self.fusion = graph, fusion
        self.sources = [_allocate_source(graph, slot) for slot in range(len(graph.sources))]
        self._places: dict[int, Place] = {}
        self._targets: dict[int, list[Place]] = {}
        self.elsewhere: set[int] = set()  # values written by another value's kernel
        self._replaced: dict[int, list[int]] = {}  # by an exchange's start node
        self.first: list[tuple[Place, Place]] = []  # copies before everything else
        self.copies: list[tuple[Place, Place]] = []  # copies after everything else
        calls = [node for node in fusion.nodes if node.op is Op.CALL]
        self._calls = any(EXCHANGE_TURN not in node.attributes for node in calls)
        # Groups that must finish before sources are written: a check may stop the run.
        self._waits = [fusion.group_of[id(node)] for node in fusion.nodes
                       if node.attributes.get(EXCHANGE_TURN) == LATE or node.op is Op.CHECK]
        self._place_sources()
        self._place_roots()
        self._place_values()

    def place(self, node: Node) -> Place:
        """Where a value can be read."""
        return self._places[id(node)]

    def locate(self, node: Node) -> Place:
        """Where a value lies; it may be a movement of a materialized value."""
        chain: list[Node] = []
        while id(node) not in self._materialized:
            chain.insert(0, node)
            node = node.inputs[0]
        place = self.place(node)
        window = view_through(place.window, tuple(chain))
        assert window is not None, node
        return Place(place.memory, window)

    def targets(self, node: Node) -> list[Place]:
        """Where the kernel that computes a value writes it."""
        return self._targets.get(id(node), [])

    def list_replaced(self, start: Node) -> list[int]:
        """The positions of an exchange's operands that are stored where their results will be."""
        return self._replaced.get(id(start), [])

    def _place_sources(self) -> None:
        for node in self.fusion.nodes:
            if node.op is Op.INPUT:
                memory = self.sources[node.slot]
                self._places[id(node)] = Place(memory, view_source(self.graph, node.slot))
            elif node.op is Op.ARRAY:
                memory = Allocation(Home.CONSTANT, node.type, node.value.size, value=node.value)
                self._places[id(node)] = Place(memory, make_contiguous_view(node.shape))

    def _place_roots(self) -> None:
        """Place outputs and written sources directly in their final memory."""
        for k, node in enumerate(self.graph.outputs):
            memory = Allocation(Home.OUTPUT, node.type, max(1, prod(node.shape)), index=k)
            self._add_target(node, Place(memory, make_contiguous_view(node.shape)))
        for slot, node in self.graph.writes:
            place = Place(self.sources[slot], view_source(self.graph, slot))
            self._write_back(slot, node, place)

    def _add_target(self, node: Node, place: Place) -> None:
        if node.op in (Op.INPUT, Op.ARRAY):  # copy it before anything can overwrite it
            self.first.append((self._places[id(node)], place))
            return
        self._targets.setdefault(id(node), []).append(place)
        self._places.setdefault(id(node), place)

    def _write_back(self, slot: int, node: Node, place: Place) -> None:
        """Write a source's new value in place, after all readers of the old value have run."""
        group = self.fusion.group_of.get(id(node))
        if group is None or not self._may_overwrite(slot, node, group):
            self.copies.append((self._keep_old_value(node), place))
            return
        readers = [g for g in self._list_source_readers(slot) if g is not group]
        readers += [wait for wait in self._waits if wait is not group]
        bit = 1 << group.position
        for reader in readers:
            self.fusion.run_after(group, reader.before | 1 << reader.position)
        assert not group.before & bit
        self._add_target(node, place)

    def _keep_old_value(self, node: Node) -> Place:
        """Return a place where a value can still be read after all other kernels have run."""
        if node.op is Op.INPUT and any(node.slot == slot for slot, _ in self.graph.writes):
            place = allocate_in_arena(node)
            self.first.append((self._places[id(node)], place))
            return place
        if id(node) not in self._places:
            self._add_target(node, allocate_in_arena(node))
        return self._places[id(node)]

    def _list_source_readers(self, slot: int) -> list[FusionGroup]:
        return self.fusion.readers.get(id(self.graph.inputs[slot]), [])

    def _may_overwrite(self, slot: int, node: Node, group: FusionGroup) -> bool:
        """Whether a group may overwrite a source: other readers run before it, and it reads each
        element only where it writes it.
        """
        if group.special is not None or node.shape != self.graph.sources[slot].shape:
            return False
        if self._calls:  # a call that raises must leave all states unchanged
            return False
        bit = 1 << group.position
        if any(wait.before & bit for wait in self._waits):
            return False
        source = self.graph.inputs[slot]
        readers = self._list_source_readers(slot)
        if any(reader is not group and reader.before & bit for reader in readers):
            return False
        window = view_source(self.graph, slot)
        for item in group.nodes:
            for leaf, chain in self.fusion.read(item):
                if leaf is not source:
                    continue
                if item is group.contraction or chain:
                    return False
                if group.axes and not (
                    group.is_number(item) and _has_one_stage(group, self.fusion)
                ):
                    return False
        return self._can_store(group, node, window)

    @staticmethod
    def _can_store(group: FusionGroup, node: Node, window: StridedView) -> bool:
        """Whether strides can describe where each iteration of a group's loops stores its value."""
        if group.axes and not group.is_number(node):
            return True
        shape = group.rows if group.axes else group.shape
        return view_through(window, reshape_chain(node, shape)) is not None

    def _place_values(self) -> None:
        """Place the values that other kernels read, users first, so that the parts of a
        concatenation can be written directly into it.
        """
        for group in reversed(self.fusion.groups):
            for node in reversed(group.nodes):
                if id(node) not in self._places:
                    others = any(g is not group for g in self.fusion.readers.get(id(node), ()))
                    if not others and group.special is not node:
                        continue
                    self._add_target(node, allocate_in_arena(node))
                if node.op is Op.CONCAT:
                    self._place_parts(node)
                elif node.op in (Op.PERMUTE, Op.RESHAPE):
                    self._place_moved(node)
                elif node.op is Op.CALL:
                    self._place_sent(node)

    def _place_sent(self, result: Node) -> None:
        """If nothing else reads an exchange's operand, compute it where the result will be, which
        saves copies before and after.
        """
        if (replaced := find_replaced_operand(result)) is None:
            return
        start, position = replaced
        sent, place = start.inputs[position], self.place(result)
        while sent.op is Op.RESHAPE and id(sent) not in self._materialized:
            sent = sent.inputs[0]
        window = place.window.reshape(sent.shape)
        if place.memory.home is not Home.ARENA or id(sent) in self._places or window is None:
            return
        if self.fusion.readers.get(id(sent)) == [self.fusion.group_of[id(start)]]:
            self._add_target(sent, Place(place.memory, window))
            self._replaced.setdefault(id(start), []).append(position)

    def _place_parts(self, node: Node) -> None:
        """Write parts that only a concatenation reads directly into it."""
        start = 0
        whole_window = self.place(node).window
        for part in node.inputs:
            starts = tuple(start if i == node.axis else 0 for i in range(len(node.shape)))
            start += part.shape[node.axis]
            inner = (
                part.inputs[0]
                if part.op is Op.RESHAPE and id(part) not in self._materialized
                else part
            )
            slot = whole_window.slice(starts, (1,) * len(starts), part.shape)
            window = slot.reshape(inner.shape)
            if window is not None and self._may_be_part(inner, window):
                self._add_target(inner, Place(self.place(node).memory, window))

    def _place_moved(self, node: Node) -> None:
        """Store a value that is only read permuted in the permuted layout.

        Other readers are allowed if rows stay contiguous.
        """
        (inner,) = node.inputs
        if is_blocked_transpose(node):
            return
        readers = self.fusion.readers.get(id(inner), ())
        group = self.fusion.group_of[id(node)]
        alone = len(readers) == 1 or (node.op is Op.PERMUTE and node.axes[-1] + 1 == len(node.axes))
        targets = self.targets(node)
        if not alone or group not in readers or group.axes or group.contraction is not None:
            return
        if len(targets) != 1 or self._has_other_reader(inner, node, group):
            return
        memory = targets[0].memory
        if memory.home is Home.SOURCE and self._list_source_readers(memory.index):
            return
        window = targets[0].window
        if node.op is Op.PERMUTE:
            moved: StridedView | None = window.permute(invert_permutation(node.axes))
        else:
            moved = window.reshape(inner.shape)
        if moved is not None and self._may_be_part(inner, moved):
            self._add_target(inner, Place(memory, moved))
            self.elsewhere.add(id(node))

    def _has_other_reader(self, inner: Node, node: Node, group: FusionGroup) -> bool:
        """Whether another node of the group reads the value."""
        return any(leaf is inner for item in group.nodes if item is not node
                   for leaf, _ in self.fusion.read(item))

    @property
    def _materialized(self) -> dict[int, Node]:
        return self.fusion.materialized

    def _may_be_part(self, part: Node, window: StridedView) -> bool:
        group = self.fusion.group_of.get(id(part))
        if group is None or id(part) in self._places or part.op is Op.SUM_PARTS:
            return False
        if group.special is not None and group.special.op not in STRIDED_WRITERS:
            return False
        if group.special is not None:
            group = FusionGroup(part.shape)
        if not self._can_store(group, part, window):
            return False
        for reader in self.fusion.readers.get(id(part), ()):
            for node in reader.nodes:
                if node.op in (Op.CONV, Op.CONV_WEIGHT, Op.CALL):
                    return False  # these need whole arrays
                for leaf, chain in self.fusion.read(node):
                    if leaf is part and view_through(window, chain) is None:
                        return False
        return True


def _has_one_stage(group: FusionGroup, fusion: Fusion) -> bool:
    """Whether a group reduces rows and then only works on the results."""
    for node in group.nodes:
        if node.op is Op.REDUCE:
            if any(fusion.group_of.get(id(leaf)) is group for leaf, _ in fusion.read(node)):
                return False
        elif not group.is_number(node):
            return False
    return True


def _allocate_source(graph: Graph, slot: int) -> Allocation:
    source: Any = graph.sources[slot]
    return Allocation(
        Home.SOURCE, source.type, max(1, prod(source.shape)), slot, name=source.name
    )
