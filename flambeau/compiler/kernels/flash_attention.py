"""Kernels of attention, forward and backward, in which scores exist one block at a time.

For a block of query rows: for each block of keys the scores, a column a query, in memory of the
thread's own; the softmax's maxima and sums run along. Backward works the probabilities out again
from the sums. Where `causal` hides every element of a block, it is not visited; of a block on the
diagonal of a square, products leave out what is hidden, in steps of a few rows or columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...native.loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent,
    ReduceOp, Index, Kernel, LoopKind, Load, Loop, IndexValue, Scalar, Statement, Store, Type,
    Update,
)
from ...native.target.graph_costs import (
    ATTENTION_BLOCK, ATTENTION_DIAGONAL_STEP, ATTENTION_LANES, ATTENTION_LOCAL_BYTES,
    MAX_UNBLOCKED_ATTENTION,
)
from ..ir.graph import Node, Op
from ..fusion.fusion_group import FusionGroup
from ..fusion.placement import Allocation, Place
from ..fusion.buffer_assignment import BufferAssignment
from .expressions import FIXED, At, ExpressionBuilder, along


KernelWithMemory = tuple[Kernel, list[Allocation]]


def attention_kernels(group: FusionGroup, layout: BufferAssignment) -> list[KernelWithMemory]:
    """The kernels of a group of one attention."""
    assert group.special is not None
    back = group.special.op is Op.ATTENTION_GRADIENT
    return [(_Backward if back else _Forward)(group.nodes, layout).kernel()]


def attention_flops(group: FusionGroup) -> int:
    """Floating-point operations of the products."""
    node = group.nodes[0]
    q, k = node.inputs[:2]
    widths = q.shape[-1]
    widths += sum(n.shape[-1] for n in group.nodes if n.op is not Op.ATTENTION_SUMS)
    if node.op is Op.ATTENTION_GRADIENT:
        widths += node.inputs[2].shape[-1]
    area = math.prod(q.shape[:-1]) * k.shape[-2]
    return 2 * area * widths // (2 if node.causal else 1)


def block_extent(rows: int, columns: int, depth: int, width: int, size: int, causal: bool) -> int:
    """The rows and columns of a block, or 0 where none is small enough: two operands turned, the
    scores, and four numbers a row are to fit."""

    def fits(n: int) -> bool:
        return size * n * (depth + width + n + 4) <= ATTENTION_LOCAL_BYTES

    extent = max(rows, columns)
    triangle = causal and rows == columns
    if extent <= (ATTENTION_BLOCK if triangle else MAX_UNBLOCKED_ATTENTION) and fits(extent):
        return extent
    most = next((n for n in range(ATTENTION_BLOCK, 0, -ATTENTION_LANES) if fits(n)), 0)
    if not most:
        return 0
    each = -(-extent // -(-extent // most))
    return min(-(-each // ATTENTION_LANES) * ATTENTION_LANES, most)


@dataclass(frozen=True)
class _Block:
    """Some rows or columns: where they begin, and how many there are."""

    at: At
    count: int

    def element(self, index: Index) -> At:
        base, terms = self.at
        return base, (*terms, (index, 1))

    def part(self, first: int, count: int) -> _Block:
        """Some of them, from the `first` on."""
        base, terms = self.at
        return _Block((base + first, terms), count)


@dataclass(frozen=True)
class _Part:
    """Of a block of scores: some columns and some rows, as (first, how many)."""

    columns: tuple[int, int]
    rows: tuple[int, int]


@dataclass(frozen=True)
class _Visit:
    """Blocks of columns that a block of rows meets: by a loop, or one by itself.

    `hidden`: whether `causal` hides some elements. `first`: the block's first visit, and the first
    time that anything meets these columns.
    """

    columns: _Block
    hidden: bool
    first: bool
    index: Index | None = None
    rounds: int | Affine = 1


class _Blocks:
    """What both directions have in common: operands, blocks, and loops over them."""

    def __init__(self, nodes: Sequence[Node], layout: BufferAssignment) -> None:
        self.nodes, self.layout = nodes, layout
        node = nodes[0]
        self.node, self.type = node, node.type
        q, k = node.inputs[:2]
        (*self.batch, self.rows, self.depth), self.columns = q.shape, k.shape[-2]
        self.values = ExpressionBuilder(lambda node: None)
        self.indices = [Index(f"batch{i}") for i in range(len(self.batch))]
        self.outer: list[At] = [
            along(i) if n != 1 else FIXED for i, n in zip(self.indices, self.batch, strict=True)
        ]
        self.triangle = node.causal and self.rows == self.columns
        self.mask: Place | None = None

    def choose_block(self, width: int, mask: Node | None) -> None:
        """Settles what depends on the values' width."""
        self.width = width
        self.size = block_extent(
            self.rows, self.columns, self.depth, width, self.type.size, self.node.causal
        )
        self.has_column_blocks = self.columns > self.size
        self.transposes_rows = self.has_column_blocks or (
            self.triangle and self.size > ATTENTION_DIAGONAL_STEP
        )
        self.scores = Buffer(self.type, "scores", local=self.size * self.size)
        if mask is not None:
            place = self.layout.seen(mask)
            window = place.window.expanded((*self.batch, self.rows, self.columns))
            assert window is not None
            self.mask = Place(place.memory, window)

    # ------------------------------------------------------------------- memory

    def load(self, node: Node, *at: At) -> Load:
        """An operand's element in this batch."""
        place = self.layout.seen(node)
        return self._load(place, at)

    def _load(self, place: Place, at: Sequence[At]) -> Load:
        where = self.values.affine(place.window, [*self.outer, *at])
        return Load(self.values.buffer(place.memory), where)

    def stores(self, node: Node, value: Expression, *at: At, add: bool = False) -> list[Statement]:
        """A result's element, wherever it belongs."""
        return [
            Store(self.values.buffer(place.memory),
                  self.values.affine(place.window, [*self.outer, *at]), value, add=add)
            for place in self.layout.targets(node)
        ]

    def score(self, part: _Part, column: Index, row: Index) -> Affine:
        """Where a score is kept."""
        base = part.columns[0] * self.size + part.rows[0]
        return Affine(base, ((column, self.size), (row, 1)))

    def number(self, value: float) -> Constant:
        return Constant(self.type, value)

    def apply(self, operation: Scalar, *operands: Expression) -> Apply:
        return Apply(operation, operands, self.type)

    def transpose_rows(self, node: Node, rows: _Block, buffer: Buffer) -> list[Statement]:
        """Rows of an operand with its axes in the other order, where several products read them."""
        if not self.transposes_rows:
            return []
        r, c = Index("r"), Index("c")
        store = Store(buffer, Affine(0, ((c, self.size), (r, 1))),
                      self.load(node, rows.element(r), along(c)))
        return [Loop(c, node.shape[-1], [Loop(r, rows.count, [store], LoopKind.VECTORIZED)])]

    def load_transposed(
        self, node: Node, rows: _Block, part: _Part, buffer: Buffer, row: Index, depth: Index
    ) -> Load:
        """An element of such rows, for a product that has them as columns."""
        if self.transposes_rows:
            return Load(buffer, Affine(part.rows[0], ((depth, self.size), (row, 1))))
        return self.load(node, rows.part(*part.rows).element(row), along(depth))

    # -------------------------------------------------------------------- loops

    def loop_over_batch(self, body: list[Statement]) -> list[Statement]:
        """Loops over what comes before rows and columns."""
        for index, n in reversed(list(zip(self.indices, self.batch, strict=True))):
            if n != 1:
                body = [Loop(index, n, body, LoopKind.PARALLEL)]
        first = body[0]
        if not (isinstance(first, Loop) and first.kind is LoopKind.PARALLEL):
            body = [Loop(Index("once"), 1, body, LoopKind.PARALLEL)]  # blocks are one thread's own
        return body

    def column_visits(self, rows: _Block, number: Index | None, last: bool) -> list[_Visit]:
        """The blocks of columns that a block of rows has to do with."""
        full, tail = divmod(self.columns, self.size)
        j = Index("j")
        some = _Block((0, ((j, self.size),)), self.size)
        if self.triangle:
            result = [_Visit(_Block(rows.at, rows.count), True, True)]
            if last and full:
                result.append(_Visit(some, False, False, j, full))
            elif number is not None:
                result.append(_Visit(some, False, False, j, Affine(0, ((number, 1),))))
            return result
        hidden, result = self.node.causal, []
        if full == 1:
            result = [_Visit(_Block(FIXED, self.size), hidden, True)]
        elif full:
            result = [_Visit(some, hidden, False, j, full)]
        if tail:
            result.append(_Visit(_Block((full * self.size, ()), tail), hidden, not full))
        return result

    def row_blocks(self) -> list[tuple[_Block, Index | None, int, bool]]:
        """Blocks of rows: each with its loop's index and rounds, and whether it is a shorter one
        at the end."""
        full, tail = divmod(self.rows, self.size)
        result: list[tuple[_Block, Index | None, int, bool]] = []
        if full == 1:
            result.append((_Block(FIXED, self.size), None, 1, False))
        elif full:
            i = Index("i")
            result.append((_Block((0, ((i, self.size),)), self.size), i, full, False))
        if tail:
            result.append((_Block((full * self.size, ()), tail), None, 1, True))
        return result

    def _diagonal_steps(self, visit: _Visit, rows: _Block, step: int) -> list[tuple[int, int]]:
        """Of a block on the diagonal, so many rows or columns at a time, as (first, how many)."""
        n = rows.count
        if not (self.triangle and visit.hidden):
            return []
        return [(first, min(step, n - first)) for first in range(0, n, step)]

    def visible_parts(self, visit: _Visit, rows: _Block) -> list[_Part]:
        """Parts that together have all that is not hidden: wide ones, of two steps of rows."""
        result: list[_Part] = []
        for first, count in self._diagonal_steps(visit, rows, 2 * ATTENTION_DIAGONAL_STEP):
            near = min(ATTENTION_DIAGONAL_STEP, count)
            result.append(_Part((0, first + near), (first, count)))
            if count > near:
                result.append(_Part((first + near, count - near), (first + near, count - near)))
        return result or [_Part((0, visit.columns.count), (0, rows.count))]

    def by_rows(self, visit: _Visit, rows: _Block) -> list[_Part]:
        """A few rows each, with all columns that they see."""
        result = [_Part((0, first + n), (first, n))
                  for first, n in self._diagonal_steps(visit, rows, ATTENTION_DIAGONAL_STEP)]
        return result or [_Part((0, visit.columns.count), (0, rows.count))]

    def by_columns(self, visit: _Visit, rows: _Block) -> list[_Part]:
        """A few columns each, with all rows that see them."""
        result = [_Part((first, n), (first, rows.count - first))
                  for first, n in self._diagonal_steps(visit, rows, ATTENTION_DIAGONAL_STEP)]
        return result or [_Part((0, visit.columns.count), (0, rows.count))]

    def loop_over_visit(self, visit: _Visit, body: list[Statement]) -> list[Statement]:
        return body if visit.index is None else [Loop(visit.index, visit.rounds, body)]

    # ------------------------------------------------------------------- scores

    def product(
        self, rows: tuple[Index, int], columns: tuple[Index, int], depth: tuple[Index, int],
        a: Load, b: Load, total: Accumulator, body: list[Statement],
    ) -> Contract:
        return Contract((Axis(*rows),), Axis(*columns), (Axis(*depth),), a, b, total, body)

    def new_sum(self) -> Accumulator:
        return Accumulator(ReduceOp.SUM, self.type)

    def scale_and_mask(
        self, total: Expression, rows: _Block, columns: _Block, r: Index, k: Index, hidden: bool
    ) -> Expression:
        """A score from its product: scaled and masked."""
        value: Expression = self.apply(Scalar.MUL, total, self.number(self.node.scale))
        low = self.number(-math.inf)
        if hidden:
            test = Apply(Scalar.LE, (_position(columns, k), _position(rows, r)), Type.BOOL)
            value = self.apply(Scalar.WHERE, test, value, low)
        if self.mask is not None:
            mask = self._load(self.mask, [rows.element(r), columns.element(k)])
            if mask.type is Type.BOOL:
                return self.apply(Scalar.WHERE, mask, value, low)
            value = self.apply(Scalar.ADD, value, mask)
        return value

    def finish_kernel(self, name: str, body: list[Statement]) -> KernelWithMemory:
        buffers = [self.values.buffers[id(m)] for m in self.values.memories]
        return Kernel(name, buffers, body), self.values.memories


def _position(block: _Block, index: Index) -> IndexValue:
    base, terms = block.element(index)
    pairs: tuple[tuple[Index, Extent], ...] = terms
    return IndexValue(Affine(base, pairs))


class _Forward(_Blocks):
    """The result, and the logarithms of the sums."""

    def __init__(self, nodes: Sequence[Node], layout: BufferAssignment) -> None:
        super().__init__(nodes, layout)
        self.y = next((n for n in nodes if n.op is Op.ATTENTION), None)
        self.sums = next((n for n in nodes if n.op is Op.ATTENTION_SUMS), None)
        self.q, self.k = self.node.inputs[:2]
        at = 3 if self.node.op is Op.ATTENTION else 2
        mask = self.node.inputs[at] if len(self.node.inputs) > at else None
        self.choose_block(0 if self.y is None else self.y.shape[-1], mask)
        local = {"q": self.depth, "y": self.width, "top": 1, "sum": 1, "factor": 1}
        self.q_turned, self.partial_y, self.top, self.sum, self.factor = (
            Buffer(self.type, name, local=max(1, n) * self.size) for name, n in local.items()
        )

    def kernel(self) -> KernelWithMemory:
        """A thread does some blocks of rows."""
        body: list[Statement] = []
        for rows, index, rounds, last in self.row_blocks():
            inner = self._process_rows(rows, index, last)
            if index is not None:
                inner = [Loop(index, rounds, inner, LoopKind.PARALLEL)]
            body += self.loop_over_batch(inner)
        return self.finish_kernel("attention", body)

    def _process_rows(self, rows: _Block, number: Index | None, last: bool) -> list[Statement]:
        visits = self.column_visits(rows, number, last)
        alone = len(visits) == 1 and visits[0].first
        body = self.transpose_rows(self.q, rows, self.q_turned)
        if not visits[0].first:
            body += self._clear_statistics(rows)
        for visit in visits:
            steps = [self._compute_scores(visit, rows, part)
                     for part in self.visible_parts(visit, rows)]
            by_rows = self.by_rows(visit, rows)
            steps += [self._exponentiate(visit, part) for part in by_rows]
            if alone:
                steps.append(self._finish_statistics(rows))
            if self.y is not None:
                steps += [self._accumulate_values(visit, rows, part, alone) for part in by_rows]
            body += self.loop_over_visit(visit, steps)
        if not alone:
            body.append(self._finish_statistics(rows))
            body += self._store_result(rows)
        return body

    def _clear_statistics(self, rows: _Block) -> list[Statement]:
        r, c, row = Index("r"), Index("c"), Index("r")
        at = Affine(0, ((r, 1),))
        begin = [Store(self.top, at, self.number(-math.inf)), Store(self.sum, at, self.number(0))]
        body: list[Statement] = [Loop(r, rows.count, list(begin), LoopKind.VECTORIZED)]
        if self.y is not None:
            clear = Store(self.partial_y, Affine(0, ((row, self.width), (c, 1))), self.number(0))
            body.append(Loop(row, rows.count, [Loop(c, self.width, [clear], LoopKind.VECTORIZED)]))
        return body

    def _compute_scores(self, visit: _Visit, rows: _Block, part: _Part) -> Statement:
        r, k, c = Index("r"), Index("k"), Index("c")
        total, columns = self.new_sum(), visit.columns.part(*part.columns)
        value = self.scale_and_mask(total, rows.part(*part.rows), columns, r, k, visit.hidden)
        return self.product(
            (k, columns.count), (r, part.rows[1]), (c, self.depth),
            self.load(self.k, columns.element(k), along(c)),
            self.load_transposed(self.q, rows, part, self.q_turned, r, c),
            total, [Store(self.scores, self.score(part, k, r), value)],
        )

    def _exponentiate(self, visit: _Visit, part: _Part) -> Statement:
        """Scores become their exponentials; maxima and sums take them in."""
        r, k, n = Index("r"), Index("k"), part.columns[1]
        at = Affine(part.rows[0], ((r, 1),))
        score = Load(self.scores, self.score(part, k, r))
        top = Accumulator(ReduceOp.MAXIMUM, self.type, "top")
        total = Accumulator(ReduceOp.SUM, self.type)
        body: list[Statement] = [
            Begin(top, None if visit.first else Load(self.top, at)),
            Loop(k, n, [Update(top, score)]),
        ]
        base = self._finite_maximum(top)
        start: Expression | None = None
        if not visit.first:
            before = self.apply(Scalar.SUB, Load(self.top, at), base)
            body.append(Store(self.factor, at, self.apply(Scalar.EXP, before)))
            start = self.apply(Scalar.MUL, Load(self.sum, at), Load(self.factor, at))
        again = Index("k")
        score = Load(self.scores, self.score(part, again, r))
        e = self.apply(Scalar.EXP, self.apply(Scalar.SUB, score, base))
        body += [
            Begin(total, start),
            Loop(again, n, [Update(total, e), Store(self.scores, self.score(part, again, r), e)]),
            Store(self.top, at, top),
            Store(self.sum, at, total),
        ]
        return Loop(r, part.rows[1], body, LoopKind.VECTORIZED)

    def _finite_maximum(self, top: Expression) -> Expression:
        """A maximum that can be subtracted: 0 as long as all scores are -inf."""
        nothing = Apply(Scalar.EQ, (top, self.number(-math.inf)), Type.BOOL)
        return self.apply(Scalar.WHERE, nothing, self.number(0), top)

    def _accumulate_values(
        self, visit: _Visit, rows: _Block, part: _Part, alone: bool
    ) -> Statement:
        """Adds the probabilities' product with the values."""
        assert self.y is not None
        v = self.y.inputs[2]
        r, k, c = Index("r"), Index("k"), Index("c")
        total, columns = self.new_sum(), visit.columns.part(*part.columns)
        first, count = part.rows
        at, row = Affine(first * self.width, ((r, self.width), (c, 1))), Affine(first, ((r, 1),))
        if alone:
            value = self.apply(Scalar.MUL, total, Load(self.factor, row))
            body = self.stores(self.y, value, rows.part(first, count).element(r), along(c))
        elif visit.first:
            body = [Store(self.partial_y, at, total)]
        else:
            so_far = Load(self.partial_y, at)
            value = self.apply(Scalar.FMA, so_far, Load(self.factor, row), total)
            body = [Store(self.partial_y, at, value)]
        return self.product(
            (r, count), (c, self.width), (k, columns.count),
            Load(self.scores, self.score(part, k, r)), self.load(v, columns.element(k), along(c)),
            total, body,
        )

    def _finish_statistics(self, rows: _Block) -> Statement:
        """The sums' logarithms, and what to multiply rows by."""
        r = Index("r")
        at = Affine(0, ((r, 1),))
        total: Expression = Load(self.sum, at)
        top: Expression = Load(self.top, at)
        if self.mask is not None:  # rows may be masked everywhere: they give 0
            none = Apply(Scalar.EQ, (total, self.number(0)), Type.BOOL)
            total = self.apply(Scalar.WHERE, none, self.number(1), total)
            top = self._finite_maximum(top)
        body: list[Statement] = []
        if self.y is not None:
            body.append(Store(self.factor, at, self.apply(Scalar.DIV, self.number(1), total)))
        if self.sums is not None:
            value = self.apply(Scalar.ADD, self.apply(Scalar.LOG, total), top)
            body += self.stores(self.sums, value, rows.element(r))
        return Loop(r, rows.count, body, LoopKind.VECTORIZED)

    def _store_result(self, rows: _Block) -> list[Statement]:
        if self.y is None:
            return []
        r, c = Index("r"), Index("c")
        value = self.apply(Scalar.MUL, Load(self.partial_y, Affine(0, ((r, self.width), (c, 1)))),
                           Load(self.factor, Affine(0, ((r, 1),))))
        body = self.stores(self.y, value, rows.element(r), along(c))
        return [Loop(r, rows.count, [Loop(c, self.width, body, LoopKind.VECTORIZED)])]


class _Backward(_Blocks):
    """The gradients of queries, keys and values, as far as they are wanted."""

    def __init__(self, nodes: Sequence[Node], layout: BufferAssignment) -> None:
        super().__init__(nodes, layout)
        self.q, self.k, self.v, self.g, self.sums, self.inner, *mask = self.node.inputs
        self.choose_block(self.v.shape[-1], mask[0] if mask else None)
        self.wanted: dict[int, Node] = {node.of: node for node in nodes}
        self.q_turned = Buffer(self.type, "q", local=self.depth * self.size)
        self.g_turned = Buffer(self.type, "g", local=self.width * self.size)

    def kernel(self) -> KernelWithMemory:
        """A thread does everything for some of the batch: nobody else adds to its gradients."""
        body: list[Statement] = []
        blocks = self.row_blocks()
        many_rows = len(blocks) > 1 or blocks[0][1] is not None
        if not self.triangle:
            for of, node in self.wanted.items():
                if many_rows if of else self.has_column_blocks:
                    body.append(self._clear(node))
        for rows, index, rounds, last in blocks:
            inner = self._process_rows(rows, index, last, many_rows)
            body += inner if index is None else [Loop(index, rounds, inner)]
        return self.finish_kernel("attention_backward", self.loop_over_batch(body))

    def _clear(self, node: Node) -> Statement:
        r, c = Index("r"), Index("c")
        body = self.stores(node, self.number(0), along(r), along(c))
        return Loop(r, node.shape[-2], [Loop(c, node.shape[-1], body, LoopKind.VECTORIZED)])

    def _process_rows(
        self, rows: _Block, number: Index | None, last: bool, many_rows: bool
    ) -> list[Statement]:
        body = self.transpose_rows(self.q, rows, self.q_turned)
        if 0 in self.wanted or 1 in self.wanted:
            body += self.transpose_rows(self.g, rows, self.g_turned)
        for visit in self.column_visits(rows, number, last):
            fresh = self.triangle and visit.first
            add_rows, add_columns = self.has_column_blocks and not fresh, many_rows and not fresh
            parts = self.visible_parts(visit, rows)
            by_columns = self.by_columns(visit, rows)
            steps: list[Statement] = [
                self._recompute_probabilities(visit, rows, part) for part in parts
            ]
            if 2 in self.wanted:
                steps += [self._add_column_gradients(2, self.g, visit, rows, part, add_columns)
                          for part in by_columns]
            if 0 in self.wanted or 1 in self.wanted:
                steps += [self._score_gradients(visit, rows, part) for part in parts]
            if 1 in self.wanted:
                steps += [self._add_column_gradients(1, self.q, visit, rows, part, add_columns)
                          for part in by_columns]
            if 0 in self.wanted:
                steps += [self._add_row_gradients(visit, rows, part, add_rows)
                          for part in self.by_rows(visit, rows)]
            body += self.loop_over_visit(visit, steps)
        return body

    def _recompute_probabilities(self, visit: _Visit, rows: _Block, part: _Part) -> Statement:
        r, k, c = Index("r"), Index("k"), Index("c")
        total, columns = self.new_sum(), visit.columns.part(*part.columns)
        some = rows.part(*part.rows)
        value = self.scale_and_mask(total, some, columns, r, k, visit.hidden)
        value = self.apply(Scalar.SUB, value, self.load(self.sums, some.element(r)))
        value = self.apply(Scalar.EXP, value)
        return self.product(
            (k, columns.count), (r, some.count), (c, self.depth),
            self.load(self.k, columns.element(k), along(c)),
            self.load_transposed(self.q, rows, part, self.q_turned, r, c),
            total, [Store(self.scores, self.score(part, k, r), value)],
        )

    def _score_gradients(self, visit: _Visit, rows: _Block, part: _Part) -> Statement:
        """The gradient of the scores, in their place."""
        r, k, c = Index("r"), Index("k"), Index("c")
        total, columns = self.new_sum(), visit.columns.part(*part.columns)
        at, some = self.score(part, k, r), rows.part(*part.rows)
        value = self.apply(Scalar.SUB, total, self.load(self.inner, some.element(r)))
        value = self.apply(Scalar.MUL, value, Load(self.scores, at))
        value = self.apply(Scalar.MUL, value, self.number(self.node.scale))
        return self.product(
            (k, columns.count), (r, some.count), (c, self.width),
            self.load(self.v, columns.element(k), along(c)),
            self.load_transposed(self.g, rows, part, self.g_turned, r, c),
            total, [Store(self.scores, at, value)],
        )

    def _add_column_gradients(
        self, of: int, other: Node, visit: _Visit, rows: _Block, part: _Part, add: bool
    ) -> Statement:
        """Adds to the gradient of keys or values."""
        r, k, c = Index("r"), Index("k"), Index("c")
        total, columns = self.new_sum(), visit.columns.part(*part.columns)
        some = rows.part(*part.rows)
        body = self.stores(self.wanted[of], total, columns.element(k), along(c), add=add)
        return self.product(
            (k, columns.count), (c, other.shape[-1]), (r, some.count),
            Load(self.scores, self.score(part, k, r)), self.load(other, some.element(r), along(c)),
            total, body,
        )

    def _add_row_gradients(self, visit: _Visit, rows: _Block, part: _Part, add: bool) -> Statement:
        """Adds to the gradient of queries."""
        r, k, c = Index("r"), Index("k"), Index("c")
        total, columns = self.new_sum(), visit.columns.part(*part.columns)
        some = rows.part(*part.rows)
        body = self.stores(self.wanted[0], total, some.element(r), along(c), add=add)
        return self.product(
            (r, some.count), (c, self.depth), (k, columns.count),
            Load(self.scores, self.score(part, k, r)),
            self.load(self.k, columns.element(k), along(c)), total, body,
        )
