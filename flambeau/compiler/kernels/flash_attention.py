"""FlashAttention: attention kernels, forward and backward, that hold one block of scores at a time.

For each block of query rows the kernel loops over blocks of keys. Scores are in thread-local
memory, transposed: vector lanes run over queries. The forward pass rescales a running softmax
(maximum and sum of each row); the backward pass recomputes probabilities from the saved log-sums.

Blocks that `causal` hides entirely are skipped. In a block on the diagonal of a square, products
skip hidden elements in steps of ATTENTION_DIAGONAL_STEP rows or columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...native.loop_ir.expression_builder import Value, apply, constant, where
from ...native.loop_ir.ir import (
    Accumulator, Affine, Axis, Begin, Buffer, Contract, Expression, Extent, Index, IndexValue,
    Kernel, Load, Loop, LoopKind, ReduceOp, Scalar, Statement, Store, Type, Update,
)
from ...native.target.graph_costs import (
    ATTENTION_BLOCK, ATTENTION_DIAGONAL_STEP, ATTENTION_LANES, ATTENTION_LOCAL_BYTES,
    MAX_UNBLOCKED_ATTENTION,
)
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion_group import FusionGroup
from ..fusion.placement import Allocation, Place
from ..ir.graph import Node, Op
from .expressions import ExpressionBuilder
from .index_maps import FIXED, Coordinate, map_index, split


KernelWithMemory = tuple[Kernel, list[Allocation]]


def build_attention_kernels(group: FusionGroup, layout: BufferAssignment) -> list[KernelWithMemory]:
    """Build the kernels of a group of one attention."""
    assert group.special is not None
    back = group.special.op is Op.ATTENTION_GRADIENT
    return [(_Backward if back else _Forward)(group.nodes, layout).kernel()]


def count_attention_flops(group: FusionGroup) -> int:
    """The floating-point operations of the matrix products."""
    node = group.nodes[0]
    q, k = node.inputs[:2]
    widths = q.shape[-1]
    widths += sum(n.shape[-1] for n in group.nodes if n.op is not Op.ATTENTION_SUMS)
    if node.op is Op.ATTENTION_GRADIENT:
        widths += node.inputs[2].shape[-1]
    area = math.prod(q.shape[:-1]) * k.shape[-2]
    return 2 * area * widths // (2 if node.causal else 1)


def choose_block_extent(rows: int, columns: int, depth: int, width: int, size: int,
                        causal: bool) -> int:
    """The rows and columns of a block, or 0 if none fits into thread-local memory: two transposed
    operands, the scores, and four numbers per row.
    """

    def fits(n: int) -> bool:
        return size * n * (depth + width + n + 4) <= ATTENTION_LOCAL_BYTES

    extent = max(rows, columns)
    is_square_causal = causal and rows == columns
    unblocked = ATTENTION_BLOCK if is_square_causal else MAX_UNBLOCKED_ATTENTION
    if extent <= unblocked and fits(extent):
        return extent
    largest = next((n for n in range(ATTENTION_BLOCK, 0, -ATTENTION_LANES) if fits(n)), 0)
    if not largest:
        return 0
    block = -(-extent // -(-extent // largest))
    return min(-(-block // ATTENTION_LANES) * ATTENTION_LANES, largest)


@dataclass(frozen=True)
class _Range:
    """`count` consecutive rows or columns, beginning at `start`."""

    start: Coordinate
    count: int

    def at(self, index: Index) -> Coordinate:
        """The position of element `index`."""
        base, terms = self.start
        return base, (*terms, (index, 1))

    def subrange(self, first: int, count: int) -> _Range:
        """The `count` elements from `first` on."""
        base, terms = self.start
        return _Range((base + first, terms), count)


@dataclass(frozen=True)
class _Block:
    """A block of scores, or a loop over several blocks for the same rows.

    `is_masked`: whether `causal` hides some elements. `is_first`: whether this is the first block
    for these rows and for these columns. `index` and `count`: of the loop.
    """

    rows: _Range
    columns: _Range
    is_masked: bool
    is_first: bool
    index: Index | None = None
    count: int | Affine = 1

    def tile(self, rows: tuple[int, int], columns: tuple[int, int]) -> _Tile:
        """A part of the block: rows and columns as (first, count)."""
        return _Tile(
            self, self.rows.subrange(*rows), self.columns.subrange(*columns), rows[0], columns[0])

    def loop(self, body: list[Statement]) -> list[Statement]:
        """Run `body` for each block."""
        return body if self.index is None else [Loop(self.index, self.count, body)]


@dataclass(frozen=True)
class _Tile:
    """A rectangle in a block of scores that begins at (`row`, `column`) of the block."""

    block: _Block
    rows: _Range
    columns: _Range
    row: int
    column: int


_Finish = Callable[[Value, Coordinate], Value]  # of a score and the coordinate of its row


class _AttentionKernel:
    """Shared by both directions: operands, blocks, and loops over them."""

    def __init__(self, nodes: Sequence[Node], layout: BufferAssignment) -> None:
        self.nodes, self.layout = nodes, layout
        node = nodes[0]
        self.node, self.type = node, node.type
        self.q, self.k = node.inputs[:2]
        *self.batch, self.rows, self.depth = self.q.shape
        self.columns = self.k.shape[-2]
        self.values = ExpressionBuilder(lambda node: None)
        self.indices = [Index(f"batch{i}") for i in range(len(self.batch))]
        self.outer: list[Coordinate] = [
            map_index(i) if n != 1 else FIXED for i, n in zip(self.indices, self.batch, strict=True)
        ]
        self.is_square_causal = node.causal and self.rows == self.columns
        self.mask: Place | None = None

    def choose_block(self, width: int, mask: Node | None) -> None:
        """Choose the block size, given the width of the values, and set up the mask."""
        self.width = width
        self.size = choose_block_extent(
            self.rows, self.columns, self.depth, width, self.type.size, self.node.causal
        )
        self.has_column_blocks = self.columns > self.size
        self.transposes_rows = self.has_column_blocks or (
            self.is_square_causal and self.size > ATTENTION_DIAGONAL_STEP
        )
        self.scores = Buffer(self.type, "scores", local=self.size * self.size)
        self.q_transposed = Buffer(self.type, "q", local=max(1, self.depth) * self.size)
        if mask is not None:
            place = self.layout.locate(mask)
            window = place.window.expand((*self.batch, self.rows, self.columns))
            assert window is not None
            self.mask = Place(place.memory, window)

    # ------------------------------------------------------------------- memory

    def load(self, node: Node, *indices: Coordinate) -> Load:
        """Load an operand's element in this batch."""
        place = self.layout.locate(node)
        return self._load(place, indices)

    def _load(self, place: Place, indices: Sequence[Coordinate]) -> Load:
        address = self.values.affine(place.window, [*self.outer, *indices])
        return Load(self.values.buffer(place.memory), address)

    def build_stores(
        self, node: Node, value: Value, *indices: Coordinate, add: bool = False
    ) -> list[Statement]:
        """Store a result's element in each of the result's places."""
        return [
            Store(self.values.buffer(place.memory),
                  self.values.affine(place.window, [*self.outer, *indices]), value.expression,
                  add=add)
            for place in self.layout.targets(node)
        ]

    def score_index(self, tile: _Tile, column: Index, row: Index) -> Affine:
        """The position of a score in the block."""
        base = tile.column * self.size + tile.row
        return Affine(base, ((column, self.size), (row, 1)))

    def row_value(self, buffer: Buffer, row: Affine) -> Value:
        """Load a row's number from thread-local memory."""
        return Value(Load(buffer, row))

    def transpose_rows(self, node: Node, rows: _Range, buffer: Buffer) -> list[Statement]:
        """Transpose rows of an operand into thread-local memory, if several products read them."""
        if not self.transposes_rows:
            return []
        r, c = Index("r"), Index("c")
        store = Store(buffer, Affine(*split(c, self.size, r)),
                      self.load(node, rows.at(r), map_index(c)))
        return [Loop(c, node.shape[-1], [Loop(r, rows.count, [store], LoopKind.VECTORIZED)])]

    def load_transposed(
        self, node: Node, tile: _Tile, buffer: Buffer, row: Index, depth: Index
    ) -> Load:
        """Load an element of rows copied by `transpose_rows`, for a product over its columns."""
        if self.transposes_rows:
            return Load(buffer, Affine(tile.row, ((depth, self.size), (row, 1))))
        return self.load(node, tile.rows.at(row), map_index(depth))

    # -------------------------------------------------------------------- loops

    def loop_over_batch(self, body: list[Statement]) -> list[Statement]:
        """Loop over the batch axes; at least one of them is parallel."""
        for index, n in reversed(list(zip(self.indices, self.batch, strict=True))):
            if n != 1:
                body = [Loop(index, n, body, LoopKind.PARALLEL)]
        first = body[0]
        if not (isinstance(first, Loop) and first.kind is LoopKind.PARALLEL):
            body = [Loop(Index("once"), 1, body, LoopKind.PARALLEL)]  # blocks are thread-local
        return body

    def list_blocks(self, rows: _Range, number: Index | None, last: bool) -> list[_Block]:
        """The blocks of scores of a block of rows."""
        full, tail = divmod(self.columns, self.size)
        j = Index("j")
        looped = _Range((0, ((j, self.size),)), self.size)
        if self.is_square_causal:
            result = [_Block(rows, rows, True, True)]
            if last and full:
                result.append(_Block(rows, looped, False, False, j, full))
            elif number is not None:
                result.append(_Block(rows, looped, False, False, j, Affine(0, ((number, 1),))))
            return result
        is_masked, result = self.node.causal, []
        if full == 1:
            result = [_Block(rows, _Range(FIXED, self.size), is_masked, True)]
        elif full:
            result = [_Block(rows, looped, is_masked, False, j, full)]
        if tail:
            result.append(_Block(rows, _Range((full * self.size, ()), tail), is_masked, not full))
        return result

    def row_blocks(self) -> list[tuple[_Range, Index | None, int, bool]]:
        """Blocks of rows, with loop index, trip count, and whether it is a shorter last block."""
        full, tail = divmod(self.rows, self.size)
        result: list[tuple[_Range, Index | None, int, bool]] = []
        if full == 1:
            result.append((_Range(FIXED, self.size), None, 1, False))
        elif full:
            i = Index("i")
            result.append((_Range((0, ((i, self.size),)), self.size), i, full, False))
        if tail:
            result.append((_Range((full * self.size, ()), tail), None, 1, True))
        return result

    def _split_diagonal(self, block: _Block, step: int) -> list[tuple[int, int]]:
        """Steps of rows or columns in a block on the diagonal, as (first, count); else none."""
        n = block.rows.count
        if not (self.is_square_causal and block.is_masked):
            return []
        return [(first, min(step, n - first)) for first in range(0, n, step)]

    def list_visible_tiles(self, block: _Block) -> list[_Tile]:
        """Tiles that cover all visible scores: wide ones, of two steps of rows."""
        result: list[_Tile] = []
        for first, count in self._split_diagonal(block, 2 * ATTENTION_DIAGONAL_STEP):
            diagonal = min(ATTENTION_DIAGONAL_STEP, count)
            result.append(block.tile((first, count), (0, first + diagonal)))
            if count > diagonal:
                rest = first + diagonal, count - diagonal
                result.append(block.tile(rest, rest))
        return result or [_cover(block)]

    def list_row_tiles(self, block: _Block) -> list[_Tile]:
        """Tiles of a few rows, with all columns these rows see."""
        return [block.tile((first, n), (0, first + n))
                for first, n in self._split_diagonal(block, ATTENTION_DIAGONAL_STEP)] \
            or [_cover(block)]

    def list_column_tiles(self, block: _Block) -> list[_Tile]:
        """Tiles of a few columns, with all rows that see these columns."""
        return [block.tile((first, block.rows.count - first), (first, n))
                for first, n in self._split_diagonal(block, ATTENTION_DIAGONAL_STEP)] \
            or [_cover(block)]

    # ------------------------------------------------------------------- scores

    def new_sum(self) -> Accumulator:
        return Accumulator(ReduceOp.SUM, self.type)

    def scale_and_mask(self, total: Accumulator, tile: _Tile, r: Index, k: Index) -> Value:
        """Scale and mask a score."""
        score = Value(total) * self.node.scale
        if tile.block.is_masked:
            is_visible = _position(tile.columns, k) <= _position(tile.rows, r)
            score = where(is_visible, score, -math.inf)
        if self.mask is not None:
            mask = Value(self._load(self.mask, [tile.rows.at(r), tile.columns.at(k)]))
            if mask.type is Type.BOOL:
                return where(mask, score, -math.inf)
            score = score + mask
        return score

    def store_scores(self, tile: _Tile, finish: _Finish) -> Statement:
        """Compute a tile's scores, and store `finish(score, row)` of each."""
        r, k, c = Index("r"), Index("k"), Index("c")
        total = self.new_sum()
        value = finish(self.scale_and_mask(total, tile, r, k), tile.rows.at(r))
        return Contract(
            (Axis(k, tile.columns.count),), Axis(r, tile.rows.count), (Axis(c, self.depth),),
            self.load(self.k, tile.columns.at(k), map_index(c)),
            self.load_transposed(self.q, tile, self.q_transposed, r, c),
            total, [Store(self.scores, self.score_index(tile, k, r), value.expression)],
        )

    def finish_kernel(self, name: str, body: list[Statement]) -> KernelWithMemory:
        buffers = [self.values.buffers[id(m)] for m in self.values.memories]
        return Kernel(name, buffers, body), self.values.memories


def _cover(block: _Block) -> _Tile:
    """The tile that is the whole block."""
    return block.tile((0, block.rows.count), (0, block.columns.count))


def _position(block: _Range, index: Index) -> Value:
    """The number of a row or column, as a value."""
    base, terms = block.at(index)
    pairs: tuple[tuple[Index, Extent], ...] = terms
    return Value(IndexValue(Affine(base, pairs)))


def _exp(x: Value) -> Value:
    return apply(Scalar.EXP, x)


def _replace_infinite_maximum(row_max: Value) -> Value:
    """A maximum that can be subtracted: 0 if all scores are -inf."""
    return where(row_max == -math.inf, 0, row_max)


class _Forward(_AttentionKernel):
    """The forward kernel: the output, and the log-sum-exp of each row."""

    def __init__(self, nodes: Sequence[Node], layout: BufferAssignment) -> None:
        super().__init__(nodes, layout)
        self.y = next((n for n in nodes if n.op is Op.ATTENTION), None)
        self.sums = next((n for n in nodes if n.op is Op.ATTENTION_SUMS), None)
        operand = 3 if self.node.op is Op.ATTENTION else 2
        mask = self.node.inputs[operand] if len(self.node.inputs) > operand else None
        self.choose_block(0 if self.y is None else self.y.shape[-1], mask)
        local = {"y": self.width, "top": 1, "sum": 1, "factor": 1}
        self.y_sum, self.row_max, self.row_sum, self.rescale = (
            Buffer(self.type, name, local=max(1, n) * self.size) for name, n in local.items()
        )

    def kernel(self) -> KernelWithMemory:
        """Build the kernel; it is parallel over blocks of rows."""
        body: list[Statement] = []
        for rows, index, rounds, last in self.row_blocks():
            inner = self._process_rows(rows, index, last)
            if index is not None:
                inner = [Loop(index, rounds, inner, LoopKind.PARALLEL)]
            body += self.loop_over_batch(inner)
        return self.finish_kernel("attention", body)

    def _process_rows(self, rows: _Range, number: Index | None, last: bool) -> list[Statement]:
        blocks = self.list_blocks(rows, number, last)
        is_only = len(blocks) == 1 and blocks[0].is_first
        body = self.transpose_rows(self.q, rows, self.q_transposed)
        if not blocks[0].is_first:
            body += self._clear_softmax(rows)
        for block in blocks:
            steps = [self.store_scores(tile, lambda score, row: score)
                     for tile in self.list_visible_tiles(block)]
            by_rows = self.list_row_tiles(block)
            steps += [self._update_softmax(tile) for tile in by_rows]
            if is_only:
                steps.append(self._finish_softmax(rows))
            if self.y is not None:
                steps += [self._accumulate_values(tile, is_only) for tile in by_rows]
            body += block.loop(steps)
        if not is_only:
            body.append(self._finish_softmax(rows))
            body += self._store_result(rows)
        return body

    def _clear_softmax(self, rows: _Range) -> list[Statement]:
        r, c, row = Index("r"), Index("c"), Index("r")
        place = Affine(0, ((r, 1),))
        low, zero = (constant(n, self.type).expression for n in (-math.inf, 0))
        begin: list[Statement] = [Store(self.row_max, place, low), Store(self.row_sum, place, zero)]
        body: list[Statement] = [Loop(r, rows.count, begin, LoopKind.VECTORIZED)]
        if self.y is not None:
            clear = Store(self.y_sum, Affine(*split(row, self.width, c)), zero)
            body.append(Loop(row, rows.count, [Loop(c, self.width, [clear], LoopKind.VECTORIZED)]))
        return body

    def _update_softmax(self, tile: _Tile) -> Statement:
        """Update each row's maximum and sum; replace scores by their exponentials."""
        r, k, score_k = Index("r"), Index("k"), Index("k")
        row, count = Affine(tile.row, ((r, 1),)), tile.columns.count
        is_first = tile.block.is_first
        row_max = Accumulator(ReduceOp.MAXIMUM, self.type, "top")
        row_sum = Accumulator(ReduceOp.SUM, self.type)
        body: list[Statement] = [
            Begin(row_max, None if is_first else Load(self.row_max, row)),
            Loop(k, count, [Update(row_max, Load(self.scores, self.score_index(tile, k, r)))]),
        ]
        shift = _replace_infinite_maximum(Value(row_max))
        previous_sum: Expression | None = None
        if not is_first:
            rescale = _exp(self.row_value(self.row_max, row) - shift)
            body.append(Store(self.rescale, row, rescale.expression))
            previous_sum = (self.row_value(self.row_sum, row)
                            * self.row_value(self.rescale, row)).expression
        place = self.score_index(tile, score_k, r)
        exponential = _exp(Value(Load(self.scores, place)) - shift).expression
        body += [
            Begin(row_sum, previous_sum),
            Loop(score_k, count, [Update(row_sum, exponential),
                                  Store(self.scores, place, exponential)]),
            Store(self.row_max, row, row_max),
            Store(self.row_sum, row, row_sum),
        ]
        return Loop(r, tile.rows.count, body, LoopKind.VECTORIZED)

    def _accumulate_values(self, tile: _Tile, is_only: bool) -> Statement:
        """Add the product of the exponentials and the values to the output."""
        assert self.y is not None
        v = self.y.inputs[2]
        r, k, c = Index("r"), Index("k"), Index("c")
        total = self.new_sum()
        place = Affine(tile.row * self.width, ((r, self.width), (c, 1)))
        row = Affine(tile.row, ((r, 1),))
        if is_only:
            value = Value(total) * self.row_value(self.rescale, row)
            body = self.build_stores(self.y, value, tile.rows.at(r), map_index(c))
        elif tile.block.is_first:
            body = [Store(self.y_sum, place, total)]
        else:
            value = apply(Scalar.FMA, self.row_value(self.y_sum, place),
                          self.row_value(self.rescale, row), Value(total))
            body = [Store(self.y_sum, place, value.expression)]
        return Contract(
            (Axis(r, tile.rows.count),), Axis(c, self.width), (Axis(k, tile.columns.count),),
            Load(self.scores, self.score_index(tile, k, r)),
            self.load(v, tile.columns.at(k), map_index(c)), total, body,
        )

    def _finish_softmax(self, rows: _Range) -> Statement:
        """Compute each row's log-sum-exp, and the factor that normalizes it."""
        r = Index("r")
        place = Affine(0, ((r, 1),))
        row_sum, row_max = self.row_value(self.row_sum, place), self.row_value(self.row_max, place)
        if self.mask is not None:  # rows may be fully masked: they give 0
            row_sum = where(row_sum == 0, 1, row_sum)
            row_max = _replace_infinite_maximum(row_max)
        body: list[Statement] = []
        if self.y is not None:
            body.append(Store(self.rescale, place, (1 / row_sum).expression))
        if self.sums is not None:
            log_sum = apply(Scalar.LOG, row_sum) + row_max
            body += self.build_stores(self.sums, log_sum, rows.at(r))
        return Loop(r, rows.count, body, LoopKind.VECTORIZED)

    def _store_result(self, rows: _Range) -> list[Statement]:
        if self.y is None:
            return []
        r, c = Index("r"), Index("c")
        value = self.row_value(self.y_sum, Affine(*split(r, self.width, c))) \
            * self.row_value(self.rescale, Affine(0, ((r, 1),)))
        body = self.build_stores(self.y, value, rows.at(r), map_index(c))
        return [Loop(r, rows.count, [Loop(c, self.width, body, LoopKind.VECTORIZED)])]


class _Backward(_AttentionKernel):
    """The backward kernel: the gradients of queries, keys and values that the graph reads.

    `delta`: for each row, the sum of the output times its gradient.
    """

    def __init__(self, nodes: Sequence[Node], layout: BufferAssignment) -> None:
        super().__init__(nodes, layout)
        self.v, self.g, self.sums, self.delta, *mask = self.node.inputs[2:]
        self.choose_block(self.v.shape[-1], mask[0] if mask else None)
        self.gradients: dict[int, Node] = {node.of: node for node in nodes}
        self.g_transposed = Buffer(self.type, "g", local=self.width * self.size)

    def kernel(self) -> KernelWithMemory:
        """Build the kernel; parallel over the batch, so that no threads share a gradient."""
        body: list[Statement] = []
        blocks = self.row_blocks()
        has_row_blocks = len(blocks) > 1 or blocks[0][1] is not None
        if not self.is_square_causal:
            for of, node in self.gradients.items():
                if has_row_blocks if of else self.has_column_blocks:
                    body.append(self._clear(node))
        for rows, index, rounds, last in blocks:
            inner = self._process_rows(rows, index, last, has_row_blocks)
            body += inner if index is None else [Loop(index, rounds, inner)]
        return self.finish_kernel("attention_backward", self.loop_over_batch(body))

    def _clear(self, node: Node) -> Statement:
        r, c = Index("r"), Index("c")
        body = self.build_stores(node, constant(0, self.type), map_index(r), map_index(c))
        return Loop(r, node.shape[-2], [Loop(c, node.shape[-1], body, LoopKind.VECTORIZED)])

    def _process_rows(
        self, rows: _Range, number: Index | None, last: bool, has_row_blocks: bool
    ) -> list[Statement]:
        body = self.transpose_rows(self.q, rows, self.q_transposed)
        if 0 in self.gradients or 1 in self.gradients:
            body += self.transpose_rows(self.g, rows, self.g_transposed)
        for block in self.list_blocks(rows, number, last):
            is_fresh = self.is_square_causal and block.is_first
            add_rows = self.has_column_blocks and not is_fresh
            add_columns = has_row_blocks and not is_fresh
            tiles, by_columns = self.list_visible_tiles(block), self.list_column_tiles(block)
            steps: list[Statement] = [self._recompute_probabilities(tile) for tile in tiles]
            if 2 in self.gradients:
                steps += [self._add_column_gradients(2, self.g, tile, add_columns)
                          for tile in by_columns]
            if 0 in self.gradients or 1 in self.gradients:
                steps += [self._compute_score_gradients(tile) for tile in tiles]
            if 1 in self.gradients:
                steps += [self._add_column_gradients(1, self.q, tile, add_columns)
                          for tile in by_columns]
            if 0 in self.gradients:
                steps += [self._add_row_gradients(tile, add_rows)
                          for tile in self.list_row_tiles(block)]
            body += block.loop(steps)
        return body

    def _recompute_probabilities(self, tile: _Tile) -> Statement:
        def exponentiate(score: Value, row: Coordinate) -> Value:
            return _exp(score - Value(self.load(self.sums, row)))

        return self.store_scores(tile, exponentiate)

    def _compute_score_gradients(self, tile: _Tile) -> Statement:
        """Replace probabilities by the gradients of the scores."""
        r, k, c = Index("r"), Index("k"), Index("c")
        total, place = self.new_sum(), self.score_index(tile, k, r)
        gradient = Value(total) - Value(self.load(self.delta, tile.rows.at(r)))
        gradient = gradient * Value(Load(self.scores, place)) * self.node.scale
        return Contract(
            (Axis(k, tile.columns.count),), Axis(r, tile.rows.count), (Axis(c, self.width),),
            self.load(self.v, tile.columns.at(k), map_index(c)),
            self.load_transposed(self.g, tile, self.g_transposed, r, c),
            total, [Store(self.scores, place, gradient.expression)],
        )

    def _add_column_gradients(self, of: int, other: Node, tile: _Tile, add: bool) -> Statement:
        """Add to the gradient of keys or values."""
        r, k, c = Index("r"), Index("k"), Index("c")
        total = self.new_sum()
        body = self.build_stores(
            self.gradients[of], Value(total), tile.columns.at(k), map_index(c), add=add)
        return Contract(
            (Axis(k, tile.columns.count),), Axis(c, other.shape[-1]), (Axis(r, tile.rows.count),),
            Load(self.scores, self.score_index(tile, k, r)),
            self.load(other, tile.rows.at(r), map_index(c)), total, body,
        )

    def _add_row_gradients(self, tile: _Tile, add: bool) -> Statement:
        """Add to the gradient of queries."""
        r, k, c = Index("r"), Index("k"), Index("c")
        total = self.new_sum()
        body = self.build_stores(
            self.gradients[0], Value(total), tile.rows.at(r), map_index(c), add=add)
        return Contract(
            (Axis(r, tile.rows.count),), Axis(c, self.depth), (Axis(k, tile.columns.count),),
            Load(self.scores, self.score_index(tile, k, r)),
            self.load(self.k, tile.columns.at(k), map_index(c)), total, body,
        )
