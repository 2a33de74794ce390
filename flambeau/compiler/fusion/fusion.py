"""fuse: which nodes are kept in memory, and which of them one kernel computes together.

A node is kept when something reads it that cannot recompute it. Kept nodes join the group of
what they read when both go over the same domain: pointwise work joins pointwise work, reductions
over the same rows (softmax, layer norm and their gradients), and the epilogue of a contraction.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import Scalar
from ..ir.graph import Graph, Node, Op
from .fusion_group import (
    ATTENTIONS, FOLDS, INLINE, MOVEMENTS, RECURRENCES, TOGETHER, Chain, Group, domain, element,
    interior, is_identity, leaves, moved, parts_window, reshaping, reshaping_away, window_through,
)
from ..ir.graph import CONTRACTIONS
from ..ir.strided_view import Window, gaps, whole
from .materialize_transposed import turned_shares
from .materialize_weights import turned_weights
from .rematerialize import waists

COSTLY = frozenset(
    Scalar[name] for name in (
        "POW ATAN2 EXP EXP2 EXPM1 LOG LOG2 LOG10 LOG1P SIN COS TAN ASIN ACOS ATAN SINH COSH TANH "
        "ASINH ACOSH ATANH ERF ERFC DIV SQRT REM"
    ).split()
)  # fmt: skip
CHEAP = 5  # operations that are done again rather than kept
MOST_LEAVES = 28  # buffers that one kernel reads: each takes a register for its address
BLOCK = 16  # elements of a line of cache
TURNED = 1 << 14  # elements of an array that is better turned in blocks
NARROW = 4  # columns that do not fill a vector by far
LONG = 1 << 15  # elements of a domain that one thread should not go over alone


class Fusion:
    """The groups of a graph, in an order in which they can run."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes()
        self._gaps = gaps(graph)
        self.kept: dict[int, Node] = {}
        self._read: dict[int, list[tuple[Node, Chain]]] = {}
        self._keep()
        self._group()
        found = list(waists(self))
        if found:
            self.kept.update((id(node), node) for node in found)
            self._reach()
            self._group()

    def read(self, node: Node) -> list[tuple[Node, Chain]]:
        """What a node is computed from, once it is settled what is kept; see `leaves`."""
        found = self._read.get(id(node))
        if found is None:
            found = self._read[id(node)] = list(leaves(node, self.kept))
        return found

    def _group(self) -> None:
        """Puts all kept nodes into groups."""
        self._read.clear()
        self.group_of: dict[int, Group] = {}
        self.groups: list[Group] = []
        self.readers: dict[int, list[Group]] = {}  # by id of what is read
        self._led = 0  # bit i: some group comes after group i
        for node in self._in_turn():
            if id(node) in self.kept and node.op not in (Op.INPUT, Op.ARRAY):
                self._place(node)

    def _in_turn(self) -> list[Node]:
        """The nodes, inputs before users. Sums in parts, which can go with whatever passes over
        their elements, come when all groups that they could join are there."""
        late: set[int] = set()
        for node in self.nodes:
            if node.op is Op.SUM_PARTS or any(id(one) in late for one in node.inputs):
                late.add(id(node))
        return sorted(self.nodes, key=lambda node: id(node) in late)

    # ------------------------------------------------------------------- what is kept

    def _keep(self) -> None:
        """Marks the nodes that need memory of their own."""
        for node in self.nodes:
            if node.op not in INLINE:
                self.kept[id(node)] = node
        for node in self.graph.roots():
            self.kept[id(node)] = node
        self._keep_shared()
        self.kept.update((id(node), node) for node in turned_weights(self.nodes))
        self.kept.update([(id(one), one) for one in turned_shares(self.nodes, self.kept)])
        for node in self.nodes:
            for one in _needed_in_memory(node):
                # a convolution packs the borders of its image as it goes
                bordered = node.op in (Op.CONV, Op.CONV_WEIGHT) and one is node.inputs[0]
                self._keep_source(one, bordered)
        self._reach()

    def _reach(self) -> None:
        for node in self.nodes:
            if id(node) in self.kept:
                self._make_reachable(node)

    def _keep_shared(self) -> None:
        """Operations that several nodes read, unless doing them again costs little."""
        uses: dict[int, set[int]] = {}
        for node in reversed(self.nodes):
            moved = node.op in MOVEMENTS and id(node) not in self.kept
            through = uses.get(id(node), set()) if moved else {id(node)}
            for one in node.inputs:
                uses.setdefault(id(one), set()).update(through)
        cost: dict[int, float] = {}
        folded: dict[int, bool] = {}  # whether a reduction is among what a node is made of
        for node in self.nodes:
            folded[id(node)] = node.op is Op.REDUCE or (
                node.op in INLINE and any(folded[id(one)] for one in node.inputs)
            )
            cost[id(node)] = self._cost(node, cost, folded[id(node)], uses)
            shared = len(uses.get(id(node), ())) > 1
            if shared and node.op in (Op.APPLY, Op.TAKE, Op.TAKE_ALONG) and cost[id(node)] > CHEAP:
                self.kept[id(node)] = node
                cost[id(node)] = 0

    def _cost(
        self, node: Node, cost: dict[int, float], folded: bool, uses: dict[int, set[int]]
    ) -> float:
        """What computing a node again costs, in operations an element."""
        if id(node) in self.kept or not node.inputs:
            return 0
        size = max(prod(node.shape), 1)
        # what is stretched is worked out once for many elements
        below = sum(cost[id(one)] * min(1, prod(one.shape) / size) for one in node.inputs)
        if node.op in MOVEMENTS:
            return below
        full = [one for one in node.inputs if prod(one.shape) == prod(node.shape)]
        own = 10 if node.op is not Op.APPLY or node.operation in COSTLY else 1
        if not folded and any(self._is_unread(_under_movements(one), uses) for one in full):
            own += CHEAP  # better done once, as the contraction's epilogue
        return own + below + (len(full) > 1)

    @staticmethod
    def _is_unread(node: Node, uses: dict[int, set[int]]) -> bool:
        """Whether a contraction's sums need not be kept themselves, since one node reads them."""
        return node.op in CONTRACTIONS and len(uses.get(id(node), ())) == 1

    def _keep_source(self, node: Node, bordered: bool = False) -> None:
        """Keeps the value under a chain of movements, or the end of the chain.

        `bordered`: the reader takes a window with zeros around it.
        """
        chain: list[Node] = []
        one = node
        while one.op in MOVEMENTS and id(one) not in self.kept:
            chain.insert(0, one)
            one = one.inputs[0]
        at = self._impossible(one, tuple(chain))
        while at is not None and at not in chain[:1]:
            if prod(at.inputs[0].shape) > prod(node.shape):
                break
            chain = chain[chain.index(at) :]  # from what strides can say again
            one = at.inputs[0]
            at = self._impossible(one, tuple(chain))
        window = window_through(self._window(one), tuple(chain))
        usable = window is not None and (bordered or window.whole) and one.op is not Op.CONSTANT
        last = one if usable else node
        self.kept[id(last)] = last

    def _make_reachable(self, node: Node) -> None:
        """Keeps what lies under movements that strides cannot express."""
        while True:
            for leaf, chain in leaves(node, self.kept):
                at = self._impossible(leaf, chain)
                if at is not None:
                    broken = at.inputs[0]
                    self.kept[id(broken)] = broken
                    self._make_reachable(broken)
                    break
            else:
                return

    def _window(self, node: Node) -> Window:
        """How a kept value lies."""
        return self._gaps.get(id(node)) or whole(node.shape)

    def _impossible(self, leaf: Node, chain: Chain) -> Node | None:
        """The first movement of a chain that strides cannot express; None if all can."""
        window = self._window(leaf)
        for node in chain:
            after = moved(window, node)
            if after is None:
                return node
            window = after
        return None

    # ------------------------------------------------------------------- which go together

    def _place(self, node: Node) -> None:
        """Puts a kept node into a group it can join, or into one of its own."""
        read = self.read(node)
        sources = {id(self.group_of[id(leaf)]): self.group_of[id(leaf)]
                   for leaf, _ in read if id(leaf) in self.group_of}  # fmt: skip
        joined = None
        if node.op in INLINE or node.op in FOLDS:
            shape, _ = domain(node)
            near = {id(g): g for leaf, _ in read for g in self.readers.get(id(leaf), [])[-6:]
                    if g.shape == shape}  # fmt: skip
            order = sorted({**near, **sources}.values(), key=lambda g: -g.position)
            for group in order:
                if self.fits(group, node, read, list(sources.values())):
                    joined = group
                    break
        elif node.op in TOGETHER:
            joined = self._companions(node, read, list(sources.values()))
        group = joined or self._new(node)
        group.nodes.append(node)
        group.axes = group.axes or (domain(node)[1] if group.contraction is None else ())
        self.group_of[id(node)] = group
        before = 0
        for source in sources.values():
            if source is not group:
                before |= source.before | 1 << source.position
        self.follow(group, before)
        for leaf, _ in read:
            known = self.readers.setdefault(id(leaf), [])
            if group not in known:
                known.append(group)

    def _companions(
        self, node: Node, read: list[tuple[Node, Chain]], sources: list[Group]
    ) -> Group | None:
        """The group of nodes whose kernel gives this one too, if there is one that it can join."""
        near = {id(g): g for leaf, _ in read for g in self.readers.get(id(leaf), [])
                if g.special is not None}  # fmt: skip
        for group in near.values():
            bit = 1 << group.position
            later = any(source is group or source.before & bit for source in sources)
            assert group.special is not None
            twice = any(one.op is node.op and one.attributes == node.attributes
                        for one in group.nodes)  # fmt: skip
            if not later and not twice and _one_kernel(group.special, node):
                return group
        return None

    def _new(self, node: Node) -> Group:
        shape, axes = domain(node)
        group = Group(shape, axes, position=len(self.groups))
        if node.op in CONTRACTIONS:
            group.contraction = node
        elif node.op not in INLINE and node.op not in FOLDS:
            group.special = node
        self.groups.append(group)
        return group

    def follow(self, group: Group, before: int) -> None:
        """Makes a group, and all that must come after it, come after the groups in `before`."""
        if before & ~group.before == 0:
            return
        group.before |= before
        self._led |= before
        bit = 1 << group.position
        for other in self.groups if self._led & bit else ():
            if other.before & bit:
                other.before |= before

    def fits(
        self, group: Group, node: Node, read: list[tuple[Node, Chain]], sources: list[Group]
    ) -> bool:
        """Whether a node can be computed by a group's kernel."""
        if group.special is not None or any(is_turned(one) for one in group.nodes):
            return False
        bit = 1 << group.position
        if any(source is not group and source.before & bit for source in sources):
            return False  # it would have to run before itself
        if any(self.group_of.get(id(table)) is group for table in self._tables(node)):
            return False  # it reads elements that the kernel has not computed yet
        everything = {id(leaf) for one in group.nodes for leaf, _ in self.read(one)}
        if len(everything | {id(leaf) for leaf, _ in read}) + len(group.nodes) > MOST_LEAVES:
            return False
        if group.contraction is not None:
            return self._fits_epilogue(group, node)
        return self._fits_loops(group, node, read)

    def _tables(self, node: Node) -> list[Node]:
        """The kept values that a node reads by position."""
        found = []
        for one in interior(node, self.kept):
            if one.op in (Op.TAKE, Op.TAKE_ALONG):
                table = one.inputs[0]
                while id(table) not in self.kept:
                    table = table.inputs[0]
                found.append(table)
        return found

    def _fits_epilogue(self, group: Group, node: Node) -> bool:
        """Pointwise work on the product's elements, in whatever shape of the same size."""
        one = element(node)
        if node.op is Op.REDUCE or prod(one.shape) != prod(group.shape) or 0 in group.shape:
            return False
        if one is not node and not self._fits_columns(group, node):
            return False
        if group.shape[-1] <= NARROW and self._is_costly(node):
            return False  # vectors of the product would be nearly empty
        chain = reshaping(one, group.shape)
        reads_group = False
        for leaf, movements in leaves(node, self.kept, chain):
            if self.group_of.get(id(leaf)) is group:
                reads_group = True
                if not is_identity(group.shape, reshaping_away(leaf, group.shape, movements)):
                    return False
            elif self._impossible(leaf, movements) is not None:
                return False
        return reads_group

    def _fits_columns(self, group: Group, node: Node) -> bool:
        """Whether sums in parts are those of a product's columns, and nothing large is read for
        them alone."""
        window = parts_window(node, group.shape)
        if window is None or window.strides[-1] != 1:
            return False
        own = {id(leaf) for one in group.nodes for leaf, _ in self.read(one)}
        return all(
            id(leaf) in own or self.group_of.get(id(leaf)) is group
            or prod(leaf.shape) < prod(group.shape)
            for leaf, _ in self.read(node)
        )  # fmt: skip

    def _is_costly(self, node: Node) -> bool:
        return any(one.op is Op.APPLY and one.operation in COSTLY
                   for one in interior(node, self.kept))  # fmt: skip

    def _fits_loops(self, group: Group, node: Node, read: list[tuple[Node, Chain]]) -> bool:
        """Work over the same domain, which reads the group's own values only at its own place."""
        shape, axes = domain(node)
        if group.is_number(node):
            return self._fits_numbers(group, node)
        if shape != group.shape or (axes and group.axes and axes != group.axes):
            return False
        merged = Group(shape, axes or group.axes)
        if not _worth_merging(merged, group, axes):
            return False
        for leaf, chain in read:
            if self.group_of.get(id(leaf)) is not group:
                continue
            if leaf.shape == group.shape:
                if not is_identity(leaf.shape, chain):
                    return False
            elif leaf.shape != merged.rows or not _stretches_rows(leaf, chain, shape):
                return False
            elif merged.by_columns and node.op is not Op.REDUCE:
                return False  # would go over the columns twice
        return True

    def _fits_numbers(self, group: Group, node: Node) -> bool:
        """Work on one number a row, in whatever shape: a bias's update with its gradient."""
        for leaf, chain in leaves(node, self.kept, reshaping(node, group.rows)):
            if self.group_of.get(id(leaf)) is group:
                if prod(leaf.shape) != prod(group.rows):
                    return False
                if not is_identity(group.rows, reshaping_away(leaf, group.rows, chain)):
                    return False
            elif self._impossible(leaf, chain) is not None:
                return False
        return True


def is_turned(node: Node) -> bool:
    """Whether a node is a great array whose axes are put in another order, in square blocks: then
    it is a kernel of its own, since nothing else should go over memory in that order."""
    if node.op is not Op.PERMUTE:
        return False
    source = node.inputs[0]
    while source.op is Op.SLICE or (source.op is Op.APPLY and source.operation is Scalar.ADD):
        source = source.inputs[0]  # made in parts
    if source.op is not Op.CONV_WEIGHT:
        return False
    *_, channels, features = node.inputs[0].shape
    return channels % BLOCK == 0 and features % BLOCK == 0 and prod(node.shape) >= TURNED


def fuse(graph: Graph) -> Fusion:
    """The graph's nodes in groups; see Fusion."""
    return Fusion(graph)


def _worth_merging(merged: Group, group: Group, axes: tuple[int, ...]) -> bool:
    """Not where pointwise work that threads could share would run on one."""
    if not merged.axes or (group.axes and axes):
        return True
    return prod(merged.shape) <= LONG or prod(merged.rows) >= 16


def _stretches_rows(leaf: Node, chain: Chain, shape: tuple[int, ...]) -> bool:
    """Whether a chain only stretches one number a row over the row."""
    found = window_through(whole(leaf.shape), chain)
    plain = whole(leaf.shape).expanded(shape)
    return found is not None and found == plain


def _under_movements(node: Node) -> Node:
    while node.op in MOVEMENTS:
        node = node.inputs[0]
    return node


def _one_kernel(a: Node, b: Node) -> bool:
    """Whether two nodes are of one attention (its result and sums, or its gradients) or of one
    recurrent layer."""
    if a.op in RECURRENCES:
        given = [{k: v for k, v in one.attributes.items() if k != "of"} for one in (a, b)]
        return a.op is b.op and a.inputs == b.inputs and given[0] == given[1]
    if a.op not in ATTENTIONS or (a.scale, a.causal) != (b.scale, b.causal):
        return False
    if (a.op is Op.ATTENTION_GRADIENT) != (b.op is Op.ATTENTION_GRADIENT):
        return False
    if a.op is Op.ATTENTION_GRADIENT:
        return a.inputs == b.inputs
    ones, twos = ([n for i, n in enumerate(one.inputs) if i != 2 or one.op is not Op.ATTENTION]
                  for one in (a, b))  # fmt: skip
    return ones == twos


def _needed_in_memory(node: Node) -> list[Node]:
    """The inputs that a node reads as whole arrays."""
    if node.op in (Op.TAKE, Op.TAKE_ALONG):
        return [node.inputs[0]]
    if node.op in INLINE or node.op in FOLDS:
        return []
    return list(node.inputs)
