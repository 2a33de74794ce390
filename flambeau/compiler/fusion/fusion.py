"""Fusion: which values are stored in memory, and which of them share a kernel.

materialization.py chooses the stored values. A stored node joins the group of a node it reads if
both iterate over the same domain: pointwise work joins pointwise work, reductions over the same
rows (softmax, layer norm and their gradients), and the epilogue of a contraction. Everything else
is recomputed inside the kernels that read it.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import Scalar
from ...native.target.graph_costs import (
    CACHE_LINE_ELEMENTS, MAX_BUFFERS_READ, MAX_NARROW_COLUMNS,
    MAX_SERIAL_ELEMENTS, MIN_BLOCKED_TRANSPOSE_ELEMENTS, MIN_MERGED_ROWS,
)
from ..ir.graph import CONTRACTIONS, Graph, Node, Op, is_operation
from ..ir.strided_view import make_contiguous_view
from .fusion_group import (
    ATTENTIONS, FOLDS, INLINE, RECURRENCES, MULTI_RESULT, Chain, FusionGroup, compute_domain,
    get_element, iterate_fused_nodes, is_identity, find_leaves, view_partial_sums, reshape_chain,
    rebase_chain, view_through,
)
from .materialization import EXPENSIVE_OPERATIONS, Materialization


class Fusion:
    """The groups of a graph, in an order in which they can run."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._materialization = Materialization(graph)
        self.nodes, self.materialized = self._materialization.nodes, self._materialization.values
        self._read: dict[int, list[tuple[Node, Chain]]] = {}
        self._assign_groups()
        if self._materialization.refine(self):
            self._assign_groups()

    def read(self, node: Node) -> list[tuple[Node, Chain]]:
        """The materialized values that a node is computed from; see `find_leaves`."""
        cached = self._read.get(id(node))
        if cached is None:
            cached = self._read[id(node)] = list(find_leaves(node, self.materialized))
        return cached

    def _assign_groups(self) -> None:
        """Assign every materialized node to a group."""
        self._read.clear()
        self.group_of: dict[int, FusionGroup] = {}
        self.groups: list[FusionGroup] = []
        self.readers: dict[int, list[FusionGroup]] = {}  # by id of the value read
        self._with_successors = 0  # bit i: some group comes after group i
        for node in self._order_nodes():
            if id(node) in self.materialized and node.op not in (Op.INPUT, Op.ARRAY):
                self._assign_to_group(node)

    def _order_nodes(self) -> list[Node]:
        """The nodes, inputs before users, with partial sums last.

        A partial sum can join any group that iterates over its elements, so all such groups must
        exist first.
        """
        deferred: set[int] = set()
        for node in self.nodes:
            if node.op is Op.SUM_PARTS or any(id(a) in deferred for a in node.inputs):
                deferred.add(id(node))
        return sorted(self.nodes, key=lambda node: id(node) in deferred)

    def _assign_to_group(self, node: Node) -> None:
        """Add a materialized node to a group it fits, or to a new group."""
        read = self.read(node)
        sources = {id(self.group_of[id(leaf)]): self.group_of[id(leaf)]
                   for leaf, _ in read if id(leaf) in self.group_of}
        joined = None
        if node.op in INLINE or node.op in FOLDS:
            shape, _ = compute_domain(node)
            neighbors = {id(g): g for leaf, _ in read for g in self.readers.get(id(leaf), [])[-6:]
                    if g.shape == shape}
            order = sorted({**neighbors, **sources}.values(), key=lambda g: -g.position)
            for group in order:
                if self.fits(group, node, read, list(sources.values())):
                    joined = group
                    break
        elif node.op in MULTI_RESULT:
            joined = self._find_sibling_group(node, read, list(sources.values()))
        group = joined or self._open_group(node)
        group.nodes.append(node)
        group.axes = group.axes or (compute_domain(node)[1] if group.contraction is None else ())
        self.group_of[id(node)] = group
        before = 0
        for source in sources.values():
            if source is not group:
                before |= source.before | 1 << source.position
        self.run_after(group, before)
        for leaf, _ in read:
            known = self.readers.setdefault(id(leaf), [])
            if group not in known:
                known.append(group)

    def _find_sibling_group(
        self, node: Node, read: list[tuple[Node, Chain]], sources: list[FusionGroup]
    ) -> FusionGroup | None:
        """The group whose kernel also computes this node: another result of the same attention or
        recurrent layer; None if there is none.
        """
        neighbors = {id(g): g for leaf, _ in read for g in self.readers.get(id(leaf), [])
                if g.special is not None}
        for group in neighbors.values():
            bit = 1 << group.position
            later = any(source is group or source.before & bit for source in sources)
            assert group.special is not None
            twice = any(item.op is node.op and item.attributes == node.attributes
                        for item in group.nodes)
            if not later and not twice and _share_kernel(group.special, node):
                return group
        return None

    def _open_group(self, node: Node) -> FusionGroup:
        shape, axes = compute_domain(node)
        group = FusionGroup(shape, axes, position=len(self.groups))
        if node.op in CONTRACTIONS:
            group.contraction = node
        elif node.op not in INLINE and node.op not in FOLDS:
            group.special = node
        self.groups.append(group)
        return group

    def run_after(self, group: FusionGroup, before: int) -> None:
        """Make a group, and every group after it, run after the groups in the bit set `before`."""
        if before & ~group.before == 0:
            return
        group.before |= before
        self._with_successors |= before
        bit = 1 << group.position
        for other in self.groups if self._with_successors & bit else ():
            if other.before & bit:
                other.before |= before

    def fits(
        self,
        group: FusionGroup,
        node: Node,
        read: list[tuple[Node, Chain]],
        sources: list[FusionGroup],
    ) -> bool:
        """Whether a group's kernel can compute a node."""
        if group.special is not None or any(is_blocked_transpose(item) for item in group.nodes):
            return False
        bit = 1 << group.position
        if any(source is not group and source.before & bit for source in sources):
            return False  # the group would have to run before itself
        if any(self.group_of.get(id(table)) is group for table in self._list_gathered_tables(node)):
            return False  # the node reads elements that the kernel has not computed yet
        leaves = {id(leaf) for item in group.nodes for leaf, _ in self.read(item)}
        if len(leaves | {id(leaf) for leaf, _ in read}) + len(group.nodes) > MAX_BUFFERS_READ:
            return False
        if group.contraction is not None:
            return self._fits_epilogue(group, node)
        return self._fits_loops(group, node, read)

    def _list_gathered_tables(self, node: Node) -> list[Node]:
        """The materialized tables that a node gathers from."""
        result = []
        for item in iterate_fused_nodes(node, self.materialized):
            if item.op in (Op.TAKE, Op.TAKE_ALONG):
                table = item.inputs[0]
                while id(table) not in self.materialized:
                    table = table.inputs[0]
                result.append(table)
        return result

    def _fits_epilogue(self, group: FusionGroup, node: Node) -> bool:
        """Whether a node is pointwise work on the contraction's elements, in any shape."""
        operand = get_element(node)
        if node.op is Op.REDUCE or prod(operand.shape) != prod(group.shape) or 0 in group.shape:
            return False
        if operand is not node and not self._fits_columns(group, node):
            return False
        if group.shape[-1] <= MAX_NARROW_COLUMNS and self._is_costly(node):
            return False  # vectors would be nearly empty
        chain = reshape_chain(operand, group.shape)
        reads_group = False
        for leaf, movements in find_leaves(node, self.materialized, chain):
            if self.group_of.get(id(leaf)) is group:
                reads_group = True
                if not is_identity(group.shape, rebase_chain(leaf, group.shape, movements)):
                    return False
            elif self._materialization.find_inexpressible(leaf, movements) is not None:
                return False
        return reads_group

    def _fits_columns(self, group: FusionGroup, node: Node) -> bool:
        """Whether partial sums run over the contraction's columns and read no other large array."""
        window = view_partial_sums(node, group.shape)
        if window is None or window.strides[-1] != 1:
            return False
        leaves = {id(leaf) for item in group.nodes for leaf, _ in self.read(item)}
        return all(
            id(leaf) in leaves or self.group_of.get(id(leaf)) is group
            or prod(leaf.shape) < prod(group.shape)
            for leaf, _ in self.read(node)
        )

    def _is_costly(self, node: Node) -> bool:
        return any(is_operation(item, *EXPENSIVE_OPERATIONS)
                   for item in iterate_fused_nodes(node, self.materialized))

    def _fits_loops(self, group: FusionGroup, node: Node, read: list[tuple[Node, Chain]]) -> bool:
        """Whether a node iterates over the group's domain and reads the group's values in place."""
        shape, axes = compute_domain(node)
        if group.is_number(node):
            return self._fits_numbers(group, node)
        if shape != group.shape or (axes and group.axes and axes != group.axes):
            return False
        merged = FusionGroup(shape, axes or group.axes)
        if not _is_merge_profitable(merged, group, axes):
            return False
        for leaf, chain in read:
            if self.group_of.get(id(leaf)) is not group:
                continue
            if leaf.shape == group.shape:
                if not is_identity(leaf.shape, chain):
                    return False
            elif leaf.shape != merged.rows or not _broadcasts_rows(leaf, chain, shape):
                return False
            elif merged.by_columns and node.op is not Op.REDUCE:
                return False  # would iterate over the columns twice
        return True

    def _fits_numbers(self, group: FusionGroup, node: Node) -> bool:
        """Whether a node computes one number per row, in any shape, such as a bias update."""
        for leaf, chain in find_leaves(node, self.materialized, reshape_chain(node, group.rows)):
            if self.group_of.get(id(leaf)) is group:
                if prod(leaf.shape) != prod(group.rows):
                    return False
                if not is_identity(group.rows, rebase_chain(leaf, group.rows, chain)):
                    return False
            elif self._materialization.find_inexpressible(leaf, chain) is not None:
                return False
        return True


def is_blocked_transpose(node: Node) -> bool:
    """Whether a node is a large transpose that runs in square blocks, in a separate kernel.

    No other work should iterate over memory in that order.
    """
    if node.op is not Op.PERMUTE:
        return False
    source = node.inputs[0]
    while source.op is Op.SLICE or is_operation(source, Scalar.ADD):
        source = source.inputs[0]  # a gradient computed in parts
    if source.op is not Op.CONV_WEIGHT:
        return False
    *_, channels, features = node.inputs[0].shape
    return (
        channels % CACHE_LINE_ELEMENTS == 0
        and features % CACHE_LINE_ELEMENTS == 0
        and prod(node.shape) >= MIN_BLOCKED_TRANSPOSE_ELEMENTS
    )


def fuse(graph: Graph) -> Fusion:
    """Group the graph's nodes into kernels."""
    return Fusion(graph)


def _is_merge_profitable(merged: FusionGroup, group: FusionGroup, axes: tuple[int, ...]) -> bool:
    """Whether merging leaves enough parallelism: pointwise work must not end up on one thread."""
    if not merged.axes or (group.axes and axes):
        return True
    return prod(merged.shape) <= MAX_SERIAL_ELEMENTS or prod(merged.rows) >= MIN_MERGED_ROWS


def _broadcasts_rows(leaf: Node, chain: Chain, shape: tuple[int, ...]) -> bool:
    """Whether a chain only broadcasts one number per row over the row."""
    view = view_through(make_contiguous_view(leaf.shape), chain)
    return view is not None and view == make_contiguous_view(leaf.shape).expand(shape)


def _share_kernel(a: Node, b: Node) -> bool:
    """Whether two nodes are results of the same attention or of the same recurrent layer."""
    if a.op in RECURRENCES:
        settings = [{k: v for k, v in node.attributes.items() if k != "of"} for node in (a, b)]
        return a.op is b.op and a.inputs == b.inputs and settings[0] == settings[1]
    if a.op not in ATTENTIONS or (a.scale, a.causal) != (b.scale, b.causal):
        return False
    if (a.op is Op.ATTENTION_GRADIENT) != (b.op is Op.ATTENTION_GRADIENT):
        return False
    if a.op is Op.ATTENTION_GRADIENT:
        return a.inputs == b.inputs
    scores_of_a, scores_of_b = (
        [x for i, x in enumerate(node.inputs) if i != 2 or node.op is not Op.ATTENTION]
        for node in (a, b)
    )
    return scores_of_a == scores_of_b
