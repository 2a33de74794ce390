"""evaluate: run a graph node by node with NumPy. Slow; it defines what the graph means.

Every pass must preserve these results, up to the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...native.loop_ir.ir import ReduceOp, Scalar, Type
from ...native.loop_ir.numpy_forms import (
    REDUCTION_UFUNCS, dtype_of, identity_element, take_maximum, take_minimum,
)
from ...native.loop_ir.philox import philox, philox_word
from .errors import CheckFailed
from .exchange import REFUSALS, fail_check
from .graph import Graph, Node, Op
from .recurrence import evaluate_recurrence, evaluate_recurrence_gradient

Array = np.ndarray


def type_of(dtype: np.dtype) -> Type:
    """The type of a NumPy dtype; TypeError if the compiler does not support it."""
    try:
        return Type(dtype.name)
    except ValueError:
        raise TypeError(f"the compiler does not support dtype {dtype.name}") from None


def evaluate(graph: Graph, sources: Sequence[Any]) -> tuple[list[Array], list[tuple[int, Array]]]:
    """Return (the outputs, (slot, new value) for each write-back), given a value for each source.

    Sources may be arrays or numbers; they are not modified.
    """
    values: dict[int, Array] = {}
    calls: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            result = _evaluate_node(
                node, [values[id(operand)] for operand in node.inputs], sources, calls
            )
            assert result.shape == tuple(node.shape), (node, result.shape)
            values[id(node)] = result.astype(dtype_of(node.type), copy=False)
    return (
        [values[id(node)] for node in graph.outputs],
        [(slot, values[id(node)]) for slot, node in graph.writes],
    )


def _evaluate_node(
    node: Node, inputs: list[Array], sources: Sequence[Any], calls: dict[int, Any]
) -> Array:
    """Return a node's value. `calls`: results of eager functions, which several nodes share."""
    if node.op is Op.INPUT:
        value = np.asarray(sources[node.slot], dtype_of(node.type))
        return value.reshape(node.shape) if not value.ndim else value
    if node.op is Op.CALL:
        group = id(node.group)
        if group not in calls:
            try:
                calls[group] = node.function(*inputs)
            except REFUSALS as error:
                fail_check(node, error)
        result = calls[group]
        return np.asarray(result[node.output] if isinstance(result, (tuple, list)) else result)
    return np.asarray(RULES[node.op](node, *inputs))


# ------------------------------------------------------------------------------ elements


def _fma(a: Array, b: Array, c: Array) -> Array:
    exact = np.float64 if a.dtype == np.float32 else np.longdouble
    return (a.astype(exact) * b + c).astype(a.dtype)


def _divide(a: Array, b: Array) -> Array:
    """Divide; integers toward zero."""
    if a.dtype.kind == "f":
        return a / b
    quotient = np.floor_divide(a, b)
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0)))


def _load_special(name: str) -> Callable:
    def function(a: Array) -> Array:
        from scipy import special

        return getattr(special, name)(a)

    return function


SCALARS: dict[Scalar, Callable] = {
    Scalar.ADD: np.add, Scalar.SUB: np.subtract, Scalar.MUL: np.multiply, Scalar.DIV: _divide,
    Scalar.FMA: _fma, Scalar.NEG: np.negative, Scalar.ABS: np.abs, Scalar.MAXIMUM: take_maximum,
    Scalar.MINIMUM: take_minimum, Scalar.REM: np.fmod, Scalar.POW: np.power,
    Scalar.ATAN2: np.arctan2, Scalar.COPYSIGN: np.copysign, Scalar.SQRT: np.sqrt,
    Scalar.EXP: np.exp, Scalar.EXP2: np.exp2, Scalar.EXPM1: np.expm1, Scalar.LOG: np.log,
    Scalar.LOG2: np.log2, Scalar.LOG10: np.log10, Scalar.LOG1P: np.log1p, Scalar.SIN: np.sin,
    Scalar.COS: np.cos, Scalar.TAN: np.tan, Scalar.ASIN: np.arcsin, Scalar.ACOS: np.arccos,
    Scalar.ATAN: np.arctan, Scalar.SINH: np.sinh, Scalar.COSH: np.cosh, Scalar.TANH: np.tanh,
    Scalar.ASINH: np.arcsinh, Scalar.ACOSH: np.arccosh, Scalar.ATANH: np.arctanh,
    Scalar.ERF: _load_special("erf"), Scalar.ERFC: _load_special("erfc"), Scalar.FLOOR: np.floor,
    Scalar.CEIL: np.ceil, Scalar.TRUNC: np.trunc, Scalar.ROUND: np.rint, Scalar.EQ: np.equal,
    Scalar.NE: np.not_equal, Scalar.LT: np.less, Scalar.LE: np.less_equal,
    Scalar.GT: np.greater, Scalar.GE: np.greater_equal, Scalar.AND: np.bitwise_and,
    Scalar.OR: np.bitwise_or, Scalar.XOR: np.bitwise_xor, Scalar.NOT: np.invert,
    Scalar.SHL: np.left_shift, Scalar.SHR: np.right_shift, Scalar.WHERE: np.where,
    Scalar.PHILOX: philox, Scalar.PHILOX_WORD: philox_word,
}


def _apply(node: Node, *inputs: Array) -> Array:
    kind = dtype_of(node.type)
    if node.operation is Scalar.CAST:
        result = inputs[0] != 0 if node.type is Type.BOOL else inputs[0].astype(kind)
    elif node.operation is Scalar.BITCAST:
        result = np.asarray(inputs[0], order="C").view(kind)
    else:
        result = SCALARS[node.operation](*inputs)
    return np.broadcast_to(result, node.shape)


# ------------------------------------------------------------------------------ movement


def make_slices(starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]) -> tuple:
    """The index of a SLICE: element i along an axis is starts + i * steps."""
    result = []
    for start, step, n in zip(starts, steps, shape, strict=True):
        stop = start + step * n
        result.append(slice(0, 0) if n == 0 else slice(start, stop if stop >= 0 else None, step))
    return tuple(result)


def _pad(node: Node, a: Array) -> Array:
    result = np.zeros(node.shape, a.dtype)
    index = tuple(slice(low, low + n) for low, n in zip(node.low, a.shape, strict=True))
    result[index] = a
    return result


def _update(node: Node, a: Array, b: Array) -> Array:
    result = a.copy()
    result[make_slices(node.starts, node.steps, b.shape)] = b
    return result


def _iota(node: Node) -> Array:
    shape = [1] * len(node.shape)
    shape[node.axis] = node.shape[node.axis]
    return np.broadcast_to(np.arange(node.shape[node.axis]).reshape(shape), node.shape)


# ------------------------------------------------------------------------------- folding

def _reduce(node: Node, a: Array) -> Array:
    if node.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        function = np.argmax if node.fold is ReduceOp.ARGMAX else np.argmin
        return function(a, axis=node.axes[0], keepdims=True)
    kind = a.dtype if node.fold in (ReduceOp.SUM, ReduceOp.PRODUCT) else None
    start = identity_element(node.fold, a.dtype)
    return REDUCTION_UFUNCS[node.fold].reduce(a, node.axes, kind, keepdims=True, initial=start)


def _sum_parts(node: Node, a: Array) -> Array:
    result = np.zeros(node.shape, a.dtype)
    result[0] = np.add.reduce(a, axis=node.axes, keepdims=True)
    return result


def _scan(node: Node, a: Array) -> Array:
    return REDUCTION_UFUNCS[node.fold].accumulate(a, axis=node.axis, dtype=a.dtype)


# ------------------------------------------------------------------------------ contracting


def _matmul(node: Node, a: Array, b: Array) -> Array:
    return np.matmul(a, b)


def _iterate_taps(node: Node, kernel: Sequence[int], output: Sequence[int]) -> Any:
    """For each position in a convolution's kernel, yield the input window it is applied to."""
    (sh, sw), (dh, dw) = node.stride, node.dilation
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(i * dh, i * dh + sh * (output[0] - 1) + 1, sh)
            columns = slice(j * dw, j * dw + sw * (output[1] - 1) + 1, sw)
            yield i, j, (slice(None), rows, columns)


def _conv(node: Node, x: Array, w: Array) -> Array:
    groups, depth, features = node.groups, w.shape[2], w.shape[3] // node.groups
    result = np.zeros(node.shape, x.dtype)
    for i, j, place in _iterate_taps(node, w.shape[:2], node.shape[1:3]):
        window = x[place]
        for k in range(groups):
            channels = window[..., k * depth : (k + 1) * depth]
            target = slice(k * features, (k + 1) * features)
            result[..., target] += channels @ w[i, j][:, target]
    return result


def _conv_weight(node: Node, x: Array, g: Array) -> Array:
    parts = node.attributes.get("parts", 1)
    images = zip(np.split(x, parts), np.split(g, parts), strict=True)
    return np.concatenate([_conv_weight_of_part(node, *part) for part in images], -1)


def _conv_weight_of_part(node: Node, x: Array, g: Array) -> Array:
    """The weight's gradient, summed over a part of the images."""
    groups, depth, features = node.groups, node.shape[2], g.shape[3] // node.groups
    result = np.zeros((*node.shape[:3], g.shape[3]), x.dtype)
    for i, j, place in _iterate_taps(node, node.shape[:2], g.shape[1:3]):
        window = x[place]
        for k in range(groups):
            channels = window[..., k * depth : (k + 1) * depth].reshape(-1, depth)
            target = slice(k * features, (k + 1) * features)
            result[i, j][:, target] = channels.T @ g[..., target].reshape(-1, features)
    return result


def _compute_scores(node: Node, q: Array, k: Array, mask: Array | None) -> Array:
    scores = np.matmul(q, k.swapaxes(-1, -2)) * q.dtype.type(node.scale)
    if node.causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -math.inf)
    if mask is not None and mask.dtype == np.bool_:
        scores = np.where(mask, scores, -math.inf)
    elif mask is not None:
        scores = scores + mask
    return scores.astype(q.dtype)


def _attention_sums(node: Node, q: Array, k: Array, mask: Array | None = None) -> Array:
    scores = _compute_scores(node, q, k, mask)
    row_max = scores.max(-1, keepdims=True)
    if mask is not None:
        row_max = np.where(row_max == -math.inf, 0, row_max)
    total = np.exp(scores - row_max).sum(-1, keepdims=True)
    if mask is not None:
        total = np.where(total == 0, 1, total)
    return (np.log(total) + row_max)[..., 0]


def _attention(node: Node, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    sums = _attention_sums(node, q, k, *(() if mask is None else (mask,)))
    p = np.exp(_compute_scores(node, q, k, mask) - sums[..., None])
    return np.matmul(p.astype(v.dtype), v)


def _attention_gradient(
    node: Node, q: Array, k: Array, v: Array, g: Array, sums: Array, inner: Array,
    mask: Array | None = None,
) -> Array:
    p = np.exp(_compute_scores(node, q, k, mask) - sums[..., None])
    if node.of == 2:
        return np.matmul(p.swapaxes(-1, -2), g)
    s = p * (np.matmul(g, v.swapaxes(-1, -2)) - inner[..., None]) * q.dtype.type(node.scale)
    return np.matmul(s, k) if node.of == 0 else np.matmul(s.swapaxes(-1, -2), q)


def _add_rows(node: Node, index: Array, values: Array) -> Array:
    result = np.zeros(node.shape, values.dtype)
    np.add.at(result, index, values)
    return result


def _check(node: Node, holds: Array, *calls: Array) -> Array:
    if not holds:
        raise CheckFailed
    return holds


RULES: dict[Op, Callable] = {
    Op.CONSTANT: lambda node: np.full(node.shape, node.value, dtype_of(node.type)),
    Op.ARRAY: lambda node: node.value,
    Op.IOTA: _iota,
    Op.APPLY: _apply,
    Op.RESHAPE: lambda node, a: a.reshape(node.shape),
    Op.PERMUTE: lambda node, a: a.transpose(node.axes),
    Op.EXPAND: lambda node, a: np.broadcast_to(a, node.shape),
    Op.SLICE: lambda node, a: a[make_slices(node.starts, node.steps, node.shape)],
    Op.PAD: _pad,
    Op.CONCAT: lambda node, *parts: np.concatenate(parts, node.axis),
    Op.UPDATE: _update,
    Op.REDUCE: _reduce,
    Op.SUM_PARTS: _sum_parts,
    Op.SCAN: _scan,
    Op.MATMUL: _matmul,
    Op.CONV: _conv,
    Op.CONV_WEIGHT: _conv_weight,
    Op.ATTENTION: _attention,
    Op.ATTENTION_SUMS: _attention_sums,
    Op.ATTENTION_GRADIENT: _attention_gradient,
    Op.RECURRENCE: evaluate_recurrence,
    Op.RECURRENCE_GRADIENT: evaluate_recurrence_gradient,
    Op.CHECK: _check,
    Op.TAKE: lambda node, x, index: np.take(x, index, 0),
    Op.ADD_ROWS: _add_rows,
    Op.TAKE_ALONG: lambda node, x, index: np.take_along_axis(x, index, node.axis),
}
