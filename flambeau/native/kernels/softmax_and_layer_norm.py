"""Kernels over rows of any number and length: softmax, layer norm, their gradients, reductions."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence

from ..loop_ir.expression_builder import Dual, Value, apply, compare, compute_type, constant, where
from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Extent, Index, IndexValue,
    Kernel, Load, Loop, LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type, Update,
)
from ..target.eager_costs import ELEMENTS_PER_PARTIAL_SUM


class RowKernelBuilder:
    """Writes a kernel that processes row after row, in passes over the columns.

    `type` is that of the matrices. Row and column vectors and intermediate values use the compute
    type: float32 for half precision, or `inside`. With `apart`, a third size gives the distance
    between rows. With `down`, the matrices are stacked and each row runs down one of them, its
    elements as far apart as the matrix is wide: the rows side by side fill the vector lanes.

    The buffers named in `tangents` have tangents, which all passes propagate to their results.
    """

    def __init__(self, type: Type, apart: int = 0, inside: Type | None = None,
                 tangents: Sequence[str] = (), down: bool = False) -> None:
        self.type, self.inside = type, inside or compute_type(type)
        self.tangents, self.tangent_of = tangents, dict[Buffer, Buffer]()
        self.row, self.column = Index("row"), Index("column")
        self.rows, self.columns = Size("rows"), Size("columns")
        self.buffers: list[Buffer] = []
        self.body: list[Statement] = []
        step = Size("apart") if apart else self.columns
        self.sizes = [self.rows, self.columns, *([step] if apart else ())]
        self.whole = Affine(0, ((self.row, step), (self.column, apart or 1)))
        self.each = Affine(0, ((self.row, 1),))
        self.along = Affine(0, ((self.column, 1),))
        self.stack: tuple[Index, Size] | None = None
        if down:
            self.stack = (matrix := Index("matrix"), Size("matrices"))
            area = Size("area")
            self.sizes = [self.stack[1], self.rows, self.columns, area]
            self.whole = Affine(0, ((matrix, area), (self.column, self.rows), (self.row, 1)))
            self.each = Affine(0, ((matrix, self.rows), (self.row, 1)))

    def buffer(self, name: str, type: Type | None = None) -> Buffer:
        """Add a buffer argument, a matrix by default; its tangent, if it has one, comes next."""
        buffer = Buffer(type or self.type, name)
        self.buffers.append(buffer)
        if name in self.tangents:
            self.tangent_of[buffer] = Buffer(buffer.type, f"{name}_t")
            self.buffers.append(self.tangent_of[buffer])
        return buffer

    def read(self, buffer: Buffer, place: Affine) -> Value:
        """Return a buffer's element, with that of its tangent if it has one."""
        value = Value(Load(buffer, place))
        tangent = self.tangent_of.get(buffer)
        return value if tangent is None else Dual(value, Value(Load(tangent, place)))

    def matrix(self, name: str) -> Value:
        """Add an argument with an element for each row and column."""
        return self.read(self.buffer(name), self.whole).cast(self.inside)

    def vector(self, name: str) -> Buffer:
        """Add an argument with an element for each row or each column."""
        return self.buffer(name, self.inside)

    def of_rows(self, name: str) -> Value:
        """Add an argument with an element for each row."""
        return self.read(self.vector(name), self.each)

    def of_columns(self, name: str) -> Value:
        """Add an argument with an element for each column."""
        return self.read(self.vector(name), self.along)

    def number(self, name: str) -> Value:
        """Add an argument of one element."""
        return self.read(self.vector(name), Affine())

    def sweep(
        self,
        folds: Sequence[tuple[ReduceOp, Value]] = (),
        stores: Sequence[tuple[Buffer, Value]] = (),
    ) -> list[Value]:
        """Make one pass over the columns, with folds and stores; return the folds' results."""
        inside: list[Statement] = [
            Store(buffer, self.whole, value.cast(buffer.type).expression)
            for store in stores for buffer, value in self._with_tangent(*store)]
        results = [self._fold(inside, *fold) for fold in folds]
        kind = LoopKind.VECTORIZED if self.stack is None else LoopKind.SERIAL
        self.body.append(Loop(self.column, self.columns, inside, kind))
        return results

    def _fold(self, inside: list[Statement], fold: ReduceOp, value: Value) -> Value:
        """Add a fold, and that of the tangent, to a pass over the columns."""
        total = Accumulator(fold, value.type)
        self.body.append(Begin(total))
        inside.append(Update(total, value.expression))
        if value.tangent is None:
            return Value(total)
        if fold is not ReduceOp.SUM:
            raise NotImplementedError(f"the tangent of a fold by {fold.name}")
        return Dual(Value(total), self._fold(inside, fold, value.tangent))

    def _with_tangent(self, buffer: Buffer, value: Value) -> list[tuple[Buffer, Value]]:
        """Return the (buffer, value) stores of a value, and of its tangent if the buffer has one.
        """
        if buffer not in self.tangent_of:
            return [(buffer, value)]
        tangent = constant(0.0, value.type) if value.tangent is None else value.tangent
        return [(buffer, value), (self.tangent_of[buffer], tangent)]

    def fold(self, fold: ReduceOp, value: Value) -> Value:
        """Fold a value over the columns."""
        return self.sweep([(fold, value)])[0]

    def keep(self, buffer: Buffer, value: Value) -> None:
        """Store a row's number."""
        self.body += [Store(b, self.each, v.expression)
                      for b, v in self._with_tangent(buffer, value)]

    def kernel(self, name: str) -> Kernel:
        """Return the kernel. Sizes: rows, columns, and the distance between rows if `apart`; or, if
        `down`, the matrices, rows side by side, columns, and elements of a matrix."""
        loop = Loop(self.row, self.rows, self.body, LoopKind.PARALLEL)
        if self.stack is not None:
            loop = Loop(*self.stack, [loop], LoopKind.PARALLEL)
        return Kernel(name, self.buffers, [loop], self.sizes)


def apply_exp(x: Value) -> Value:
    return apply(Scalar.EXP, x)


def apply_log(x: Value) -> Value:
    return apply(Scalar.LOG, x)


def softmax(type: Type, down: bool = False) -> Kernel:
    """x, y: exp(x) divided by its sum along each row."""
    r = RowKernelBuilder(type, down=down)
    x, y = r.matrix("x"), r.buffer("y")
    shifted = apply_exp(x - r.fold(ReduceOp.MAXIMUM, x))
    if type is not r.inside:  # half precision is rounded once
        r.sweep(stores=[(y, shifted * (1 / r.fold(ReduceOp.SUM, shifted)))])
        return r.kernel("softmax")
    (total,) = r.sweep([(ReduceOp.SUM, shifted)], [(y, shifted)])
    r.sweep(stores=[(y, Value(Load(y, r.whole)) * (1 / total))])
    return r.kernel("softmax")


def log_softmax(type: Type, down: bool = False) -> Kernel:
    """x, y: x minus the logarithm of the sum of exp(x) along each row."""
    r = RowKernelBuilder(type, down=down)
    x, y = r.matrix("x"), r.buffer("y")
    shifted = x - r.fold(ReduceOp.MAXIMUM, x)
    total = r.fold(ReduceOp.SUM, apply_exp(shifted))
    r.sweep(stores=[(y, shifted - apply_log(total))])
    return r.kernel("log_softmax")


def probabilities(type: Type, causal: bool) -> Kernel:
    """scores in place, scale: attention's softmax of scores * scale along rows.

    `causal`: columns beyond the diagonal count as masked.

    Sizes: batches, rows, columns, rows * columns.
    """
    batch, row, column = Index("batch"), Index("row"), Index("column")
    batches, rows, columns, each = (Size(n) for n in ("batches", "rows", "columns", "each"))
    scores, scale = Buffer(type, "scores"), Buffer(type, "scale")
    place = Affine(0, ((batch, each), (row, columns), (column, 1)))

    def two(operation: Scalar, a: Expression, b: Expression) -> Expression:
        return Apply(operation, (a, b), type)

    value: Expression = two(Scalar.MUL, Load(scores, place), Load(scale, Affine()))
    if causal:
        seen = Apply(Scalar.LE, (IndexValue(Affine(0, ((column, 1),))),
                                 IndexValue(Affine(0, ((row, 1),)))), Type.BOOL)
        value = Apply(Scalar.WHERE, (seen, value, Constant(type, -math.inf)), type)
    top, total = Accumulator(ReduceOp.MAXIMUM, type, "top"), Accumulator(ReduceOp.SUM, type)
    shifted = Apply(Scalar.EXP, (two(Scalar.SUB, value, top),), type)
    # Sum the stored values: the scores are overwritten by then.
    steps: list[list[Statement]] = [
        [Update(top, value)],
        [Update(total, shifted), Store(scores, place, shifted)],
        [Store(scores, place, two(Scalar.MUL, Load(scores, place),
                                  two(Scalar.DIV, Constant(type, 1), total)))],
    ]
    loops = [Loop(column, columns, inside, LoopKind.VECTORIZED) for inside in steps]
    body: list[Statement] = [Begin(top), loops[0], Begin(total), loops[1], loops[2]]
    nest = Loop(batch, batches, [Loop(row, rows, body, LoopKind.PARALLEL)], LoopKind.PARALLEL)
    return Kernel("probabilities", [scores, scale], [nest], [batches, rows, columns, each])


def softmax_backward(type: Type, down: bool = False) -> Kernel:
    """g, y, gx: the cotangent of softmax's input."""
    r = RowKernelBuilder(type, down=down)
    g, y, gx = r.matrix("g"), r.matrix("y"), r.buffer("gx")
    total = r.fold(ReduceOp.SUM, g * y)
    r.sweep(stores=[(gx, y * (g - total))])
    return r.kernel("softmax_backward")


def log_softmax_backward(type: Type, down: bool = False) -> Kernel:
    """g, y, gx: the cotangent of log_softmax's input."""
    r = RowKernelBuilder(type, down=down)
    g, y, gx = r.matrix("g"), r.matrix("y"), r.buffer("gx")
    total = r.fold(ReduceOp.SUM, g)
    r.sweep(stores=[(gx, g - apply_exp(y) * total)])
    return r.kernel("log_softmax_backward")


def log_softmax_tangent(type: Type, down: bool = False) -> Kernel:
    """t, y, yt: the tangent of log_softmax's result y."""
    r = RowKernelBuilder(type, down=down)
    t, y, yt = r.matrix("t"), r.matrix("y"), r.buffer("yt")
    total = r.fold(ReduceOp.SUM, t * apply_exp(y))
    r.sweep(stores=[(yt, t - total)])
    return r.kernel("log_softmax_tangent")


def layer_norm(
    type: Type, weight: bool, bias: bool, tangents: Sequence[str] = ()
) -> Kernel:
    """x, (weight), (bias), eps, 1 / columns, mean, rstd, y: rows normalized.

    `tangents`: the buffers, including x and y, that are followed by a buffer of their tangent.
    """
    r = RowKernelBuilder(type, tangents=tangents)
    x = r.matrix("x")
    w = r.of_columns("weight") if weight else None
    b = r.of_columns("bias") if bias else None
    eps, share = r.number("eps"), r.number("share")
    mean, rstd, y = r.vector("mean"), r.vector("rstd"), r.buffer("y")
    center = r.fold(ReduceOp.SUM, x) * share
    centered = x - center
    root = 1 / apply(Scalar.SQRT, r.fold(ReduceOp.SUM, centered * centered) * share + eps)
    normalized = centered * root
    normalized = normalized if w is None else normalized * w
    r.sweep(stores=[(y, normalized if b is None else normalized + b)])
    r.keep(mean, center)
    r.keep(rstd, root)
    return r.kernel("layer_norm")


def layer_norm_backward(type: Type, weight: bool) -> Kernel:
    """g, x, (weight), mean, rstd, 1 / columns, gx: the cotangent of layer_norm's input."""
    r = RowKernelBuilder(type)
    g, x = r.matrix("g"), r.matrix("x")
    w = r.of_columns("weight") if weight else None
    mean, rstd, share, gx = r.of_rows("mean"), r.of_rows("rstd"), r.number("share"), r.buffer("gx")
    hat = (x - mean) * rstd
    part = g if w is None else g * w
    along, total = r.sweep([(ReduceOp.SUM, part * hat), (ReduceOp.SUM, part)])
    r.sweep(stores=[(gx, (part - (hat * (along * share) + total * share)) * rstd)])
    return r.kernel("layer_norm_backward")


def layer_norm_tangent(
    type: Type, of_input: bool, weight: bool, of_weight: bool, of_bias: bool
) -> Kernel:
    """x, (t), (weight), (weight_t), (bias_t), mean, rstd, 1 / columns, y: layer_norm's tangent.

    t, weight_t and bias_t are the tangents of x, weight and bias.
    """
    r = RowKernelBuilder(type)
    x = r.matrix("x")
    t = r.matrix("t") if of_input else None
    w, w_t, b_t = (r.of_columns(name) if is_read else None for name, is_read in
                   (("weight", weight), ("weight_t", of_weight), ("bias_t", of_bias)))
    mean, rstd, share, y = r.of_rows("mean"), r.of_rows("rstd"), r.number("share"), r.buffer("y")
    hat = (x - mean) * rstd
    terms: list[Value] = []
    if t is not None:
        along, total = r.sweep([(ReduceOp.SUM, t * hat), (ReduceOp.SUM, t)])
        hat_t = (t - (hat * (along * share) + total * share)) * rstd
        terms.append(hat_t if w is None else hat_t * w)
    terms += [] if w_t is None else [hat * w_t]
    terms += [] if b_t is None else [b_t]
    r.sweep(stores=[(y, functools.reduce(operator.add, terms))])
    return r.kernel("layer_norm_tangent")


def layer_norm_sums(type: Type) -> Kernel:
    """g, x, mean, rstd, of_weight, of_bias: the cotangents of layer_norm's weight and bias."""
    r = RowKernelBuilder(type)
    g, x, mean, rstd = r.matrix("g"), r.matrix("x"), r.of_rows("mean"), r.of_rows("rstd")
    of_weight, of_bias = r.vector("of_weight"), r.vector("of_bias")
    return reduce_over_rows(
        r,
        "layer_norm_sums",
        [(ReduceOp.SUM, g * ((x - mean) * rstd), of_weight), (ReduceOp.SUM, g, of_bias)],
    )


def reduce_over_rows(
    r: RowKernelBuilder, name: str, folds: Sequence[tuple[ReduceOp, Value, Buffer]]
) -> Kernel:
    """A kernel that reduces over all rows, all columns in parallel lanes."""
    sums = [Accumulator(fold, value.type) for fold, value, _ in folds]
    inside: list[Statement] = [
        Update(total, value.expression) for total, (_, value, _) in zip(sums, folds, strict=True)
    ]
    body: list[Statement] = [
        *map(Begin, sums), Loop(r.row, r.rows, inside),
        *[Store(b, r.along, total) for total, (_, _, b) in zip(sums, folds, strict=True)],
    ]
    return Kernel(name, r.buffers, [Loop(r.column, r.columns, body, LoopKind.PARALLEL)], r.sizes)


def column_squares(type: Type) -> Kernel:
    """x, mean, y: each column's sum of squared distances from its mean."""
    r = RowKernelBuilder(type)
    centered = r.matrix("x") - r.of_columns("mean")
    return reduce_over_rows(r, "column_squares",
                            [(ReduceOp.SUM, centered * centered, r.vector("y"))])


def column_products(type: Type) -> Kernel:
    """g, x, mean, of_g, of_product: each column's sums of g, and of g times x less its mean."""
    r = RowKernelBuilder(type)
    g, x, mean = r.matrix("g"), r.matrix("x"), r.of_columns("mean")
    of_g, of_product = r.vector("of_g"), r.vector("of_product")
    return reduce_over_rows(
        r, "column_products", [(ReduceOp.SUM, g, of_g), (ReduceOp.SUM, g * (x - mean), of_product)]
    )


def row_dots(type: Type) -> Kernel:
    """x, v, y: the sum of products of each row with a vector."""
    r = RowKernelBuilder(type)
    x, v = r.matrix("x"), r.of_columns("v")
    r.keep(r.vector("y"), r.fold(ReduceOp.SUM, x * v))
    return r.kernel("row_dots")


def column_dots(type: Type) -> Kernel:
    """x, v, y: the sum of products of each column with a vector."""
    r = RowKernelBuilder(type)
    x, v = r.matrix("x"), r.of_rows("v")
    return reduce_over_rows(r, "column_dots", [(ReduceOp.SUM, x * v, r.vector("y"))])


# ------------------------------------------------------------------------------- reductions

FORMULAS: dict[str, Callable[[Value], Value]] = {
    "same": lambda x: x, "square": lambda x: x * x, "absolute": lambda x: abs(x),
    "known": lambda x: where(compare(Scalar.EQ, x, x), x, 0),
}


def accumulator_type(type: Type, fold: ReduceOp) -> Type | None:
    """Return the accumulator's type if it differs from the computed elements': I64 for sums and
    products of integers."""
    return Type.I64 if fold in (ReduceOp.SUM, ReduceOp.PRODUCT) and not type.floating else None


def reduce_rows(type: Type, fold: ReduceOp, formula: str = "same", apart: int = 0) -> Kernel:
    """x, y: each row's fold of a formula of its elements; the positions of ARGMAX and ARGMIN."""
    r = RowKernelBuilder(type, apart, accumulator_type(type, fold))
    value = FORMULAS[formula](r.matrix("x"))
    if fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        y, accumulator = r.buffer("y", Type.I64), Accumulator(fold, Type.I64)
        update = Update(accumulator, value.expression, IndexValue(r.along))
        r.body = [Begin(accumulator), Loop(r.column, r.columns, [update], LoopKind.VECTORIZED)]
        r.keep(y, Value(accumulator))
    else:
        y = r.vector("y")
        r.keep(y, r.fold(fold, value))
    return r.kernel("reduce_rows")


def reduce_columns(type: Type, fold: ReduceOp, formula: str = "same", apart: int = 0) -> Kernel:
    """x, y: each column's fold of a formula of its elements; as reduce_rows."""
    r = RowKernelBuilder(type, apart, accumulator_type(type, fold))
    value = FORMULAS[formula](r.matrix("x"))
    if fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        y, accumulator = r.buffer("y", Type.I64), Accumulator(fold, Type.I64)
        body: list[Statement] = [
            Begin(accumulator),
            Loop(r.row, r.rows, [Update(accumulator, value.expression, IndexValue(r.each))]),
            Store(y, r.along, accumulator),
        ]
        loop = Loop(r.column, r.columns, body, LoopKind.PARALLEL)
        return Kernel("reduce_columns", r.buffers, [loop], r.sizes)
    return reduce_over_rows(r, "reduce_columns", [(fold, value, r.vector("y"))])


def reduce_all(type: Type, fold: ReduceOp, formula: str = "same") -> Kernel:
    """x, tail, y: fold all elements on one thread, piecewise. Sizes: the number of pieces of x, and
    of elements in the tail, which is the rest of x."""
    inside = accumulator_type(type, fold) or compute_type(type)
    x, tail, y = Buffer(type, "x"), Buffer(type, "tail"), Buffer(inside, "y")
    piece, element, beyond = Index("piece"), Index("each"), Index("beyond")
    pieces, rest = Size("pieces"), Size("rest")
    total, part, last = (Accumulator(fold, inside) for _ in range(3))

    def folded(into: Accumulator, place: Load, along: Index, extent: Extent) -> list[Statement]:
        value = FORMULAS[formula](Value(place).cast(inside))
        inner: list[Statement] = [Update(into, value.expression)]
        return [Begin(into), Loop(along, extent, inner, LoopKind.VECTORIZED), Update(total, into)]

    in_piece = Load(x, Affine(0, ((piece, ELEMENTS_PER_PARTIAL_SUM), (element, 1))))
    body: list[Statement] = [
        Begin(total),
        Loop(piece, pieces, folded(part, in_piece, element, ELEMENTS_PER_PARTIAL_SUM)),
        *folded(last, Load(tail, Affine(0, ((beyond, 1),))), beyond, rest),
        Store(y, Affine(), total),
    ]
    return Kernel("reduce_all", [x, tail, y], body, [pieces, rest])
