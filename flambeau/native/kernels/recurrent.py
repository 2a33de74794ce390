"""Recurrent layers over time: all steps in one kernel, forward and backward.

Threads share blocks of rows, one row per sequence. A thread takes its rows through all steps, so
threads never wait for each other, and reads the recurrent weights as panels that stay in its cache.
A step multiplies some rows by each panel, then applies the cell to that panel's columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..loop_ir.expression_builder import Value, where
from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Buffer, Constant, Contract, Expression, Extent, Index,
    IndexValue, Kernel, Load, Loop, LoopKind, Prefetch, ReduceOp, Scalar, Size, Statement, Store,
    Type,
)
from ..target.cost_model import (
    MAX_PRIVATE_WEIGHT_BYTES, MAX_RECURRENT_BLOCK_ROWS, MAX_SHARED_WEIGHT_BYTES,
    MIN_SHARED_STEP_ROWS_PER_THREAD, MIN_STEP_PREFETCH_BYTES, MIN_STEP_ROWS_PER_THREAD,
    MIN_WIDE_WEIGHT_BYTES, RECURRENT_PANEL_WIDTHS,
)
from ..target.graph_costs import CACHE_LINE_ELEMENTS
from ..target.machine import host
from .recurrent_cells import Cell


Terms = tuple[tuple[Index, int], ...]


@dataclass(frozen=True)
class SequenceLayout:
    """A sequence's memory layout: the position of the first step computed (`base`), and the
    strides of steps (in order of computation), rows and columns.

    `later`: the buffer one step on, for prefetches when `step` is a Size.
    """

    buffer: Buffer
    row: int
    step: Extent = 0
    base: int = 0
    column: int = 1
    later: Buffer | None = None

    def at(self, step: Index | None, rows: Terms, columns: Terms, first: int = 0) -> Affine:
        """Return an element's position; `columns` count from column `first`."""
        terms: list[tuple[Index, Extent]] = []
        if step is not None and self.step != 0:
            terms.append((step, self.step))
        terms += [(index, n * self.row) for index, n in rows if self.row]
        terms += [(index, n * self.column) for index, n in columns if self.column]
        return Affine(self.base + first * self.column, tuple(terms))


@dataclass(frozen=True)
class RecurrentExtents:
    """The extents of a layer.

    `rows`: rows per block. `batch`: total rows, if the last block is partial. `last`: index of
    the last step.
    """

    steps: Extent
    width: int
    rows: int
    blocks: Extent
    batch: Expression | None
    last: Expression


@dataclass
class RecurrentKernel:
    """A kernel and its working memory: the elements per block of each buffer."""

    kernel: Kernel
    work: dict[Buffer, int]


def choose_block_rows(batch: int, threads: int) -> int:
    """Return the rows per block that give each thread equally many blocks, if rows suffice."""
    blocks = -(-batch // MAX_RECURRENT_BLOCK_ROWS)
    blocks = min(-(-blocks // threads) * threads, batch)
    return -(-batch // blocks)


def fits_one_kernel(size: int, rows: int, threads: int) -> bool:
    """Whether one kernel for all steps is fastest, with `size` bytes of recurrent weights.

    Each thread reads all weights at each step. Weights too large for its private cache come from
    the shared cache or memory, which pays only if each thread has enough rows to reuse them and
    at least half of the threads have work.
    """
    if size <= MAX_PRIVATE_WEIGHT_BYTES:
        return size <= host().l2_bytes // 2 or 2 * rows > threads
    if has_narrow_panels() and size <= MAX_SHARED_WEIGHT_BYTES:
        return rows >= threads * MIN_SHARED_STEP_ROWS_PER_THREAD
    has_enough_rows = rows >= threads * MIN_STEP_ROWS_PER_THREAD
    return has_enough_rows and (has_narrow_panels() or size <= MIN_WIDE_WEIGHT_BYTES)


def has_narrow_panels() -> bool:
    """Whether a panel is only one tile wide. With few registers a block has many row groups, and
    wider panels would be evicted from L1 between them."""
    return host().vector_registers == 16


def choose_panel_columns(width: int, type: Type) -> int:
    """Return the panel width for a product this wide that wastes the fewest columns."""
    if has_narrow_panels():
        return 2 * host().lanes(type)
    return min(RECURRENT_PANEL_WIDTHS, key=lambda n: (-(-width // n) * n, -n))


def units_per_panel(cell: Cell, width: int, type: Type) -> int:
    """Return how many units a forward panel has, each with the columns of all gates."""
    return 16 if cell.gates > 1 and not has_narrow_panels() else choose_panel_columns(width, type)


def products_per_panel(cell: Cell) -> int:
    """Return the products per forward panel: one for each gate, or one for all."""
    return cell.gates if has_narrow_panels() else 1


def round_up_to_panels(width: int, count: int) -> int:
    """Round a width up to whole panels."""
    return -(-width // count) * count


def count_packed_elements(cell: Cell, width: int, type: Type, backward: bool) -> int:
    """Return the number of elements of the recurrent weights' panels."""
    count = choose_panel_columns(width, type) if backward else units_per_panel(cell, width, type)
    return round_up_to_panels(width, count) * width * cell.gates


# ------------------------------------------------------------------------------- panels


def pack_weights(cell: Cell, width: int, weight: SequenceLayout, backward: bool) -> Kernel:
    """Return a kernel (weight, panels) that packs recurrent weights (gates * width, width).

    Forward panels are (panel, depth, gate, unit), or (panel, gate, depth, unit) if each gate is a
    separate product; backward panels are (panel, depth, column)."""
    type = weight.buffer.type
    count = choose_panel_columns(width, type) if backward else units_per_panel(cell, width, type)
    full_panels, tail = divmod(width, count)
    into = Buffer(type, "panels")
    body: list[Statement] = []
    if full_panels:
        p = Index("panel")
        inner = _pack_panel(cell, width, weight, into, backward, (0, ((p, 1),), count, count))
        body.append(Loop(p, full_panels, inner, LoopKind.PARALLEL))
    if tail:
        inner = _pack_panel(cell, width, weight, into, backward, (full_panels, (), count, tail))
        body.append(Loop(Index("once"), 1, inner, LoopKind.PARALLEL))
    return Kernel("panels", [weight.buffer, into], body)


def _pack_panel(
    cell: Cell, width: int, weight: SequenceLayout, into: Buffer, backward: bool,
    panel: tuple[int, Terms, int, int],
) -> list[Statement]:
    """Pack one panel; `panel`: first number, index terms, columns (per gate), valid columns."""
    first, index, count, valid = panel
    gates = 1 if backward else cell.gates
    depth, parts = (
        width * (cell.gates if backward else 1),
        1 if backward else products_per_panel(cell),
    )
    across = gates // parts * count
    statements_of_panel: list[Statement] = []
    for gate in range(gates):
        k, u = Index("depth"), Index("column")
        along = (*((i, count) for i, _ in index), (u, 1))
        if backward:
            place = weight.at(None, ((k, 1),), along, first * count)
        else:
            place = weight.at(None, along, ((k, 1),))
            place = Affine(place.base + (gate * width + first * count) * weight.row, place.terms)
        size = parts * depth * across
        base = first * size + gate * (count if parts == 1 else depth * count)
        terms = (*((i, size) for i, _ in index), (k, across), (u, 1))
        store = Store(into, Affine(base, terms), Load(weight.buffer, place))
        statements_of_panel.append(Loop(k, depth, [Loop(u, valid, [store], LoopKind.VECTORIZED)]))
        if valid < count:
            k, u = Index("depth"), Index("column")
            zero = Store(into, Affine(base + valid, ((k, across), (u, 1))),
                         Constant(into.type, 0))
            statements_of_panel.append(
                Loop(k, depth, [Loop(u, count - valid, [zero], LoopKind.VECTORIZED)])
            )
    return statements_of_panel


# ------------------------------------------------------------------------------ what both share


class _StepLoop:
    """A loop over time steps for each block of rows; base of the forward and backward kernels."""

    def __init__(
        self,
        cell: Cell,
        type: Type,
        extents: RecurrentExtents,
        inputs: Mapping[str, SequenceLayout],
        outputs: Mapping[str, Sequence[SequenceLayout]],
        count: int,
    ) -> None:
        self.cell, self.type, self.extents = cell, type, extents
        self.inputs, self.results = inputs, outputs
        self.count = count  # columns of a panel, or units
        self.panels = round_up_to_panels(extents.width, count) // count
        self.wide = self.panels * count
        self.block, self.step = Index("block"), Index("step")
        self.buffers: dict[Buffer, None] = {}
        self.work: dict[Buffer, int] = {}
        for bound in (extents.batch, extents.last):
            if isinstance(bound, Load):
                self.buffers[bound.buffer] = None
        for grid in (*inputs.values(), *(g for group in outputs.values() for g in group)):
            self.buffers[grid.buffer] = None
            if grid.later is not None:
                self.buffers[grid.later] = None

    def add_work(self, name: str, columns: int) -> SequenceLayout:
        """Add working memory of this block, with `columns` columns per row."""
        buffer = Buffer(self.type, name)
        self.buffers[buffer] = None
        self.work[buffer] = self.extents.rows * columns
        return SequenceLayout(buffer, columns)

    def rows(self, row: Index) -> Terms:
        return ((self.block, self.extents.rows), (row, 1))

    def row_exists(self, row: Index) -> Expression | None:
        """Whether a row exists; None if all do."""
        if self.extents.batch is None:
            return None
        row_number = IndexValue(Affine(0, self.rows(row)))
        return Apply(Scalar.LT, (row_number, self.extents.batch), Type.BOOL)

    def load(self, name: str, step: Index | None, row: Index, columns: Terms, mask: Any,
             first: int = 0) -> Value:
        """Load an element of an input."""
        grid = self.inputs[name]
        return Value(Load(grid.buffer, grid.at(step, self.rows(row), columns, first), (), mask))

    def load_own(self, grid: SequenceLayout, row: Index, columns: Terms, first: int = 0) -> Value:
        """Load an element of working memory."""
        return Value(Load(grid.buffer, grid.at(None, self.rows(row), columns, first)))

    def store_own(
        self, grid: SequenceLayout, row: Index, columns: Terms, value: Value, first: int = 0
    ) -> Store:
        """Store to working memory."""
        return Store(grid.buffer, grid.at(None, self.rows(row), columns, first), value.expression)

    def stores(self, name: str, step: Index | None, row: Index, columns: Terms, mask: Any,
               parts: Sequence[Value]) -> list[Statement]:
        """Store a result's parts, each `width` columns, to every destination of the result."""
        return [
            Store(grid.buffer, grid.at(step, self.rows(row), columns, k * self.extents.width),
                  part.expression, (), mask)
            for grid in self.results.get(name, ()) for k, part in enumerate(parts)
        ]

    def prefetch_next_step(self, names: Sequence[str], columns: Terms) -> list[Statement]:
        """Prefetch the next step's inputs and outputs, one line per part (`width` columns apart):
        they come from distant memory and arrive during the products."""
        row, prefetches = Index("row"), []
        for name in names:
            for grid in (*([self.inputs[name]] if name in self.inputs else ()),
                         *self.results.get(name, ())):
                for part in range(self.cell.parts(name)):
                    place = grid.at(self.step, self.rows(row), columns, part * self.extents.width)
                    if grid.later is not None:
                        prefetches.append(Prefetch(grid.later, place))
                    elif (
                        isinstance(grid.step, int)
                        and abs(grid.step) * self.type.size >= MIN_STEP_PREFETCH_BYTES
                    ):
                        later = Affine(place.base + grid.step, place.terms)
                        prefetches.append(Prefetch(grid.buffer, later))
        return [Loop(row, self.extents.rows, list(prefetches))] if prefetches else []

    def over_rows(self, body: Sequence[Statement], row: Index, column: Index,
                  columns: int) -> Statement:
        return Loop(
            row, self.extents.rows, [Loop(column, columns, list(body), LoopKind.VECTORIZED)]
        )

    def starts(self, name: str, into: SequenceLayout) -> Statement:
        """Initialize a state: zeros if none is given."""
        row, column = Index("row"), Index("column")
        value = Value(Constant(self.type, 0))
        if name in self.inputs:
            value = self.load(name, None, row, ((column, 1),), self.row_exists(row))
        store = self.store_own(into, row, ((column, 1),), value)
        return self.over_rows([store], row, column, self.extents.width)

    def ends(self, name: str, state: SequenceLayout) -> list[Statement]:
        """Store a state after all steps, if it is wanted."""
        if name not in self.results:
            return []
        row, column = Index("row"), Index("column")
        along = ((column, 1),)
        value = self.load_own(state, row, along)
        stores = self.stores(name, None, row, along, self.row_exists(row), [value])
        return [self.over_rows(stores, row, column, self.extents.width)]

    def product(
        self,
        panel: Terms,
        a: SequenceLayout,
        depth: int,
        into: Affine,
        row: Index,
        column: Index,
        across: int,
        buffer: Buffer,
        add: bool,
        weights: str = "panels",
    ) -> Contract:
        """Multiply the block's rows of `a` by a panel, whose number is the sum `panel`."""
        k, total = Index("depth"), Accumulator(ReduceOp.SUM, self.type)
        panels = self.inputs[weights].buffer
        return Contract(
            (Axis(row, self.extents.rows),), Axis(column, across), (Axis(k, depth),),
            Load(a.buffer, a.at(None, self.rows(row), ((k, 1),))),
            Load(panels, Affine(0, (*((i, n * depth * across) for i, n in panel),
                                    (k, across), (column, 1)))),
            total, [Store(buffer, into, total, add=add)],
        )

    def build_kernel(self, name: str, body: list[Statement]) -> RecurrentKernel:
        loop = Loop(self.block, self.extents.blocks, body, LoopKind.PARALLEL)
        grids = (*self.inputs.values(), *(g for group in self.results.values() for g in group))
        extents = (self.extents.steps, self.extents.blocks, *(grid.step for grid in grids))
        sizes = [n for n in extents if isinstance(n, Size)]
        return RecurrentKernel(Kernel(name, list(self.buffers), [loop], sizes), self.work)


# ------------------------------------------------------------------------------ forward


def build_forward(
    cell: Cell, type: Type, extents: RecurrentExtents, inputs: Mapping[str, SequenceLayout],
    outputs: Mapping[str, Sequence[SequenceLayout]],
) -> RecurrentKernel:
    """Return the forward kernel over all steps of a layer.

    Inputs: x (steps, rows, gates * width), the input products; panels; optionally the initial
    states h and c (rows, width), and bias (width), the recurrent bias of the new gate. Results: y
    (steps, rows, width), the values that the cell keeps, and the final states h and c.
    """
    return ForwardKernel(cell, type, extents, inputs, outputs,
                         units_per_panel(cell, extents.width, type)).kernel()


class ForwardKernel(_StepLoop):
    """All steps of a layer from the first on."""

    def kernel(self) -> RecurrentKernel:
        """Build the kernel: initial states, the steps, final states."""
        self.states = {name: self.add_work(name, self.wide) for name in self.list_states()}
        self.new = {name: self.add_work(f"new {name}", self.wide) for name in self.list_hidden()}
        body = [self.starts(name, state) for name, state in self.states.items()]
        panel = Index("panel")
        steps = [Loop(panel, self.panels, self._compute_panel(panel)),
                 *[self._update_state(name) for name in self.new]]
        body.append(Loop(self.step, self.extents.steps, steps))
        for name, state in self.states.items():
            body += self.ends(name, state)
        return self.build_kernel("recurrence", body)

    def list_states(self) -> list[str]:
        """Return the names of the states that steps carry."""
        return ["h", "c"] if self.cell.carries else ["h"]

    def list_hidden(self) -> list[str]:
        """Return the states that enter the next step's products."""
        return ["h"]

    def _compute_panel(self, panel: Index) -> list[Statement]:
        """Compute a panel's sums, then its units."""
        across = self.cell.gates * self.count
        sums = {name: Buffer(self.type, f"sums of {name}", local=self.extents.rows * across)
                for name in self.new}
        row, unit = Index("row"), Index("unit")
        columns = ((panel, self.count), (unit, 1))
        mask = self._mask(row, columns)
        stores = self.compute_units(row, unit, columns, sums, mask)
        names = ("x", "y", *self.cell.keeps)
        return [*self.prefetch_next_step(names, ((panel, self.count),)),
                *self.compute_sums(panel, sums), self.over_rows(stores, row, unit, self.count)]

    def compute_sums(self, panel: Index, sums: Mapping[str, Buffer]) -> list[Statement]:
        """Multiply the hidden states by a panel."""
        return [self.multiply_panel(panel, "h", "panels", sums["h"])]

    def multiply_panel(self, panel: Index, state: str, panels: str, sums: Buffer,
                       add: bool = False) -> Statement:
        """Store a state's product with a panel of all gates, or add it."""
        row, column, part = Index("row"), Index("column"), Index("part")
        parts = products_per_panel(self.cell)
        across = self.cell.gates * self.count
        into = Affine(0, ((row, across), (part, across // parts), (column, 1)))
        return Loop(part, parts, [self.product(
            ((panel, parts), (part, 1)), self.states[state], self.extents.width, into, row, column,
            across // parts, sums, add, panels,
        )])

    def compute_units(self, row: Index, unit: Index, columns: Terms, sums: Mapping[str, Buffer],
                      mask: Expression | None) -> list[Statement]:
        """Apply the cell to a panel's units; store the new states and the results."""
        results = self.cell.forward(self.read_values(row, unit, columns, sums, mask))
        stores: list[Statement] = [self.store_own(self.new["h"], row, columns, results["y"][0])]
        for name, parts in results.items():
            stores += self.stores(name, self.step, row, columns, mask, parts)
        if self.cell.carries:  # comes last: earlier stores read the old state
            stores.append(self.store_own(self.states["c"], row, columns, results["cells"][0]))
        return stores

    def read_values(self, row: Index, unit: Index, columns: Terms, sums: Mapping[str, Buffer],
                    mask: Expression | None, ending: str = "") -> dict[str, Any]:
        """Return what the cell reads, from the inputs and states whose names have this ending."""
        width, gates = self.extents.width, range(self.cell.gates)
        own = sums[f"h{ending}"]
        across = self.cell.gates * self.count
        values: dict[str, Any] = {
            "s": [Value(Load(own, Affine(k * self.count, ((row, across), (unit, 1)))))
                  for k in gates],
            "h": self.load_own(self.states[f"h{ending}"], row, columns),
        }
        if f"x{ending}" in self.inputs:
            values["x"] = [self.load(f"x{ending}", self.step, row, columns, mask, k * width)
                           for k in gates]
        if self.cell.carries:
            values["c"] = self.load_own(self.states[f"c{ending}"], row, columns)
        if f"bias{ending}" in self.inputs:
            bias = self.inputs[f"bias{ending}"]
            inside = self._test_inside(columns)
            values["bias"] = Value(Load(bias.buffer, bias.at(None, (), columns), (), inside))
        return values

    def _test_inside(self, columns: Terms) -> Expression | None:
        """Whether a panel's column exists; None if all do."""
        if self.wide == self.extents.width:
            return None
        limit = Constant(Type.I64, self.extents.width)
        return Apply(Scalar.LT, (IndexValue(Affine(0, columns)), limit), Type.BOOL)

    def _mask(self, row: Index, columns: Terms) -> Expression | None:
        tests = [t for t in (self.row_exists(row), self._test_inside(columns)) if t is not None]
        if len(tests) == 2:
            return Apply(Scalar.AND, tuple(tests), Type.BOOL)
        return tests[0] if tests else None

    def _update_state(self, name: str) -> Statement:
        """Make a new state the current one, once all panels have read the old."""
        element, count = Index("element"), self.extents.rows * self.wide
        place = Affine(0, ((self.block, count), (element, 1)))
        move = Store(self.states[name].buffer, place, Load(self.new[name].buffer, place))
        return Loop(element, count, [move], LoopKind.VECTORIZED)


# ------------------------------------------------------------------------------ backward


def build_backward(
    cell: Cell, type: Type, extents: RecurrentExtents, inputs: Mapping[str, SequenceLayout],
    outputs: Mapping[str, Sequence[SequenceLayout]],
) -> RecurrentKernel:
    """Return the kernel for the cotangents of all steps' sums, from the last step to the first.

    Inputs: panels, the values that the cell kept; optionally gy (steps, rows, width), dh and dc
    (rows, width), the cotangents of the final states, `previous`, the state that the cell reads
    from the step before, and `first`, the initial one. Results: d (steps, rows, gates * width), dx
    if input and recurrent sums have different cotangents, dh and dc of the initial states.
    """
    return _BackwardKernel(cell, type, extents, inputs, outputs,
                           choose_panel_columns(extents.width, type)).kernel()


class _BackwardKernel(_StepLoop):
    def kernel(self) -> RecurrentKernel:
        """Build the kernel: final cotangents, the steps, initial cotangents."""
        cell, width = self.cell, self.extents.width
        self.dh = self.add_work("dh", self.wide)
        self.d = self.add_work("d", cell.gates * width)
        body = [self.starts("dh", self.dh)]
        if cell.carries:
            self.dc = self.add_work("dc", width)
            body.append(self.starts("dc", self.dc))
        line = Index("line")
        names = ("gy", "d", "dx", *cell.keeps)
        ahead = self.prefetch_next_step(names, ((line, CACHE_LINE_ELEMENTS),))
        if ahead:
            ahead = [Loop(line, -(-width // CACHE_LINE_ELEMENTS), ahead)]
        body.append(Loop(
            self.step, self.extents.steps, [self._compute_cell(), *ahead, self._compute_product()]
        ))
        body += self.ends("dh", self.dh)
        if cell.carries:
            body += self.ends("dc", self.dc)
        return self.build_kernel("recurrence_backward", body)

    def _compute_cell(self) -> Statement:
        """Compute the cotangents of a step's sums."""
        row, unit = Index("row"), Index("unit")
        columns, mask = ((unit, 1),), self.row_exists(row)
        results = self.cell.backward(self._values(row, columns, mask))
        width = self.extents.width
        stores: list[Statement] = [self.store_own(self.d, row, columns, part, k * width)
                                   for k, part in enumerate(results["d"])]
        for name in ("d", "dx"):
            if name in results:
                stores += self.stores(name, self.step, row, columns, mask, results[name])
        for name, state in (("dh", self.dh), *((("dc", self.dc),) if self.cell.carries else ())):
            if name in results:  # comes last: earlier stores read the old state
                stores.append(self.store_own(state, row, columns, results[name][0]))
        return self.over_rows(stores, row, unit, width)

    def _values(self, row: Index, columns: Terms, mask: Expression | None) -> dict[str, Any]:
        width = self.extents.width
        dh = self.load_own(self.dh, row, columns)
        if "gy" in self.inputs:
            dh = dh + self.load("gy", self.step, row, columns, mask)
        values: dict[str, Any] = {"dh": dh}
        for name, parts in self.cell.keeps.items():
            values[name] = [self.load(name, self.step, row, columns, mask, k * width)
                            for k in range(parts)]
        if self.cell.carries:
            values["dc"] = self.load_own(self.dc, row, columns)
        if self.cell.before is not None:
            values["before"] = self._load_previous_state(row, columns, mask)
        return values

    def _load_previous_state(self, row: Index, columns: Terms, mask: Expression | None) -> Value:
        """The state before a step: the previous step's, or the initial state."""
        now = IndexValue(Affine(0, ((self.step, 1),)))

        def under(test: Scalar) -> Expression:
            condition = Apply(test, (now, self.extents.last), Type.BOOL)
            return condition if mask is None else Apply(Scalar.AND, (condition, mask), Type.BOOL)

        later = under(Scalar.LT)
        before = self.load("previous", self.step, row, columns, later)
        if "first" not in self.inputs:
            return before
        first = self.load("first", None, row, columns, under(Scalar.EQ))
        return where(Value(Apply(Scalar.LT, (now, self.extents.last), Type.BOOL)), before, first)

    def _compute_product(self) -> Statement:
        """Compute the previous state's cotangent, panel by panel."""
        panel, row, column = Index("panel"), Index("row"), Index("column")
        into = self.dh.at(None, self.rows(row), ((panel, self.count), (column, 1)))
        depth = self.cell.gates * self.extents.width
        product = self.product(((panel, 1),), self.d, depth, into, row, column, self.count,
                               self.dh.buffer, self.cell.partly)
        return Loop(panel, self.panels, [product])
