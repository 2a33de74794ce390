"""ONNX conversions of convolutions, pooling, normalization, products and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..fx.node import Node
from .conversion_table import CONVERSIONS, converts, converts_ranks
from .graph_builder import DTYPES, GraphBuilder, short


_ONNX_BOOL = 9  # TensorProto.BOOL
_CUBIC_COEFFICIENT = -0.75  # PyTorch's parameter of bicubic interpolation
_ONNX_MODES = {"nearest": "nearest", "bilinear": "linear", "linear": "linear",
               "trilinear": "linear", "bicubic": "cubic"}


def _as_list(value: Any, count: int) -> list[int]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def _apply_to_batch(
    b: GraphBuilder, x: Any, spatial_rank: int, apply: Callable[[str], str]
) -> str:
    """Apply an ONNX operator that requires a batch axis. Add and remove the axis if x has none."""
    if b.rank(x) == spatial_rank + 2:
        return apply(b.value(x))
    return b.op("Squeeze", apply(b.op("Unsqueeze", b.value(x), b.sizes([0]))), b.sizes([0]))


# ------------------------------------------------------------------------------ convolutions


@converts("conv1d", "conv2d", "conv3d")
def _conv(b: GraphBuilder, node: Node, x: Any, weight: Any, bias: Any = None, stride: Any = 1,
          padding: Any = 0, dilation: Any = 1, groups: int = 1) -> str:
    spatial_rank = b.rank(weight) - 2
    weights = [b.value(weight)] + ([] if bias is None else [b.value(bias)])
    pads: Any = None
    if not isinstance(padding, str):
        pads = _as_list(padding, spatial_rank) * 2
    return _apply_to_batch(b, x, spatial_rank, lambda value: b.op(
        "Conv", value, *weights, strides=_as_list(stride, spatial_rank),
        dilations=_as_list(dilation, spatial_rank), group=groups, pads=pads,
        auto_pad={"same": "SAME_UPPER", "valid": "VALID"}.get(padding)
        if isinstance(padding, str) else None,
    ))


@converts("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(b: GraphBuilder, node: Node, x: Any, weight: Any, bias: Any = None,
                    stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                    dilation: Any = 1) -> str:
    spatial_rank = b.rank(weight) - 2
    weights = [b.value(weight)] + ([] if bias is None else [b.value(bias)])
    return _apply_to_batch(b, x, spatial_rank, lambda value: b.op(
        "ConvTranspose", value, *weights, strides=_as_list(stride, spatial_rank), group=groups,
        dilations=_as_list(dilation, spatial_rank), pads=_as_list(padding, spatial_rank) * 2,
        output_padding=_as_list(output_padding, spatial_rank),
    ))


@converts_ranks("max_pool{n}d")
def _max_pool(b: GraphBuilder, node: Node, x: Any, kernel: Any, stride: Any = None,
              padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, *,
              spatial_rank: int) -> str:
    return _apply_to_batch(b, x, spatial_rank, lambda value: b.op(
        "MaxPool", value, kernel_shape=_as_list(kernel, spatial_rank), ceil_mode=int(ceil_mode),
        strides=_as_list(stride or kernel, spatial_rank), pads=_as_list(padding, spatial_rank) * 2,
        dilations=_as_list(dilation, spatial_rank),
    ))


@converts_ranks("avg_pool{n}d")
def _avg_pool(b: GraphBuilder, node: Node, x: Any, kernel_size: Any, stride: Any = None,
              padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
              divisor_override: Any = None, *, spatial_rank: int) -> str:
    if divisor_override is not None:
        raise NotImplementedError("avg_pool with divisor_override")
    return _apply_to_batch(b, x, spatial_rank, lambda value: b.op(
        "AveragePool", value, kernel_shape=_as_list(kernel_size, spatial_rank),
        strides=_as_list(stride or kernel_size, spatial_rank), ceil_mode=int(ceil_mode),
        pads=_as_list(padding, spatial_rank) * 2, count_include_pad=int(count_include_pad),
    ))


@converts_ranks("adaptive_avg_pool{n}d")
def _adaptive_avg_pool(b: GraphBuilder, node: Node, x: Any, output_size: Any, *,
                       spatial_rank: int) -> str:
    lengths, output_sizes = b.tensor(x).shape[-spatial_rank:], _as_list(output_size, spatial_rank)
    sizes = [n if m is None else m for n, m in zip(lengths, output_sizes, strict=True)]
    if all(m == 1 for m in sizes):
        return _apply_to_batch(b, x, spatial_rank, lambda value: b.op("GlobalAveragePool", value))
    if any(n % m for n, m in zip(lengths, sizes, strict=True)):
        return _pool_unevenly(b, x, [int(n) for n in lengths], sizes)
    kernel = [int(n) // m for n, m in zip(lengths, sizes, strict=True)]
    return _apply_to_batch(b, x, spatial_rank, lambda value: b.op(
        "AveragePool", value, kernel_shape=kernel, strides=kernel))


def _pool_unevenly(b: GraphBuilder, x: Any, lengths: list[int], sizes: list[int]) -> str:
    """Average over windows of unequal size: multiply each axis by a matrix of window weights."""
    value, rank = b.value(x), b.rank(x)
    dtype = short(b.tensor(x).dtype)
    for i, (n, m) in enumerate(zip(lengths, sizes, strict=True)):
        weights = np.zeros((n, m))
        for j in range(m):
            start, end = j * n // m, -((-(j + 1) * n) // m)
            weights[start:end, j] = 1 / (end - start)
        axis = rank - len(lengths) + i
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        moved = b.op("Transpose", value, perm=order)
        value = b.op("Transpose", b.op("MatMul", moved, b.constant(weights, dtype)), perm=order)
    return value


@converts_ranks("adaptive_max_pool{n}d", (1, 2))
def _adaptive_max_pool(b: GraphBuilder, node: Node, x: Any, output_size: Any, *_: Any,
                       spatial_rank: int) -> str:
    lengths, sizes = b.tensor(x).shape[-spatial_rank:], _as_list(output_size, spatial_rank)
    if any(n % m for n, m in zip(lengths, sizes, strict=True)):
        raise NotImplementedError("adaptive_max_pool with windows of unequal size")
    kernel = [int(n) // m for n, m in zip(lengths, sizes, strict=True)]
    return _apply_to_batch(b, x, spatial_rank, lambda value: b.op(
        "MaxPool", value, kernel_shape=kernel, strides=kernel))


@converts("interpolate")
def _interpolate(b: GraphBuilder, node: Node, input: Any, size: Any = None,
                 scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
                 recompute_scale_factor: Any = None, antialias: bool = False) -> str:
    if mode not in _ONNX_MODES or antialias:
        raise NotImplementedError(f"interpolate with mode={mode!r}, antialias={antialias}")
    spatial_rank = b.rank(input) - 2
    coordinates = "align_corners" if align_corners else "asymmetric" if mode == "nearest" \
        else "half_pixel"
    options: dict[str, Any] = {
        "mode": _ONNX_MODES[mode], "coordinate_transformation_mode": coordinates,
        "nearest_mode": "floor",
    }
    if mode == "bicubic":
        options["cubic_coeff_a"] = _CUBIC_COEFFICIENT
    if size is None:
        scales = [1.0, 1.0, *map(float, _as_list(scale_factor, spatial_rank))]
        return b.op("Resize", b.value(input), "", b.constant(scales, "float32"), **options)
    batch_and_channels = b.op("Shape", b.value(input), start=0, end=2)
    shape = b.op("Concat", batch_and_channels, b.sizes(_as_list(size, spatial_rank)), axis=0)
    return b.op("Resize", b.value(input), "", "", shape, **options)


@converts("pixel_shuffle")
def _pixel_shuffle(b: GraphBuilder, node: Node, x: Any, upscale_factor: int) -> str:
    return b.op("DepthToSpace", b.value(x), blocksize=upscale_factor, mode="CRD")


# ------------------------------------------------------------------------------ normalization


@converts("batch_norm")
def _batch_norm(b: GraphBuilder, node: Node, x: Any, weight: Any, bias: Any, mean: Any, var: Any,
                training: bool, momentum: float, eps: float, *rest: Any) -> str:
    if training:
        raise NotImplementedError("batch_norm in training: call model.eval() before the export")
    features = int(b.tensor(x).shape[1])
    dtype = short(b.tensor(x).dtype)
    scale = b.constant([1.0] * features, dtype) if weight is None else b.value(weight)
    shift = b.constant([0.0] * features, dtype) if bias is None else b.value(bias)
    return b.op("BatchNormalization", b.value(x), scale, shift, b.value(mean), b.value(var),
                epsilon=float(eps))


@converts("layer_norm")
def _layer_norm(b: GraphBuilder, node: Node, x: Any, shape: Any, weight: Any = None,
                bias: Any = None, eps: float = 1e-5, *rest: Any) -> str:
    dtype = short(b.tensor(x).dtype)
    lengths = tuple(int(n) for n in b.tensor(x).shape[-len(shape) :])
    scale = _create_ones(b, lengths, dtype) if weight is None else b.value(weight)
    shift = [] if bias is None else [b.value(bias)]
    return b.op("LayerNormalization", b.value(x), scale, *shift, axis=-len(shape),
                epsilon=float(eps))


def _create_ones(b: GraphBuilder, shape: tuple[int, ...], dtype: str) -> str:
    return b.constant(np.ones(shape), dtype)


@converts("group_norm")
def _group_norm(b: GraphBuilder, node: Node, x: Any, num_groups: int, weight: Any = None,
                bias: Any = None, eps: float = 1e-5) -> str:
    dtype, rank = short(b.tensor(x).dtype), b.rank(x)
    groups = b.op("Reshape", b.value(x), b.sizes([0, num_groups, -1]))
    normalized = b.op("InstanceNormalization", groups, _create_ones(b, (num_groups,), dtype),
                      b.constant([0.0] * num_groups, dtype), epsilon=float(eps))
    result = b.op("Reshape", normalized, b.op("Shape", b.value(x)))
    channel_shape = b.sizes([-1] + [1] * (rank - 2))
    if weight is not None:
        result = b.op("Mul", result, b.op("Reshape", b.value(weight), channel_shape))
    if bias is not None:
        result = b.op("Add", result, b.op("Reshape", b.value(bias), channel_shape))
    return result


@converts("softmax", "_softmax", op_type="Softmax")
@converts("log_softmax", "_log_softmax", op_type="LogSoftmax")
def _softmax(b: GraphBuilder, node: Node, x: Any, dim: int, dtype: Any = None, *,
             op_type: str) -> str:
    return b.op(op_type, b.cast(x, node.meta["val"].dtype), axis=b.axis(x, dim))


# ------------------------------------------------------------------------------ products


@converts("linear")
def _linear(b: GraphBuilder, node: Node, x: Any, weight: Any, bias: Any = None) -> str:
    floating = node.meta["val"].dtype.is_floating_point
    if b.rank(x) == 2 and bias is not None and floating:
        return b.op("Gemm", b.value(x), b.value(weight), b.value(bias), transB=1)
    result = b.op("MatMul", b.value(x), b.op("Transpose", b.value(weight), perm=[1, 0]))
    return result if bias is None else b.op("Add", result, b.value(bias))


@converts("matmul", "bmm", "mm", "mv", "dot")
def _matmul(b: GraphBuilder, node: Node, x: Any, y: Any) -> str:
    return b.op("MatMul", b.value(x), b.value(y))


@converts("addmm", "baddbmm")
def _addmm(b: GraphBuilder, node: Node, bias: Any, x: Any, y: Any, beta: Any = 1,
           alpha: Any = 1) -> str:
    dtype = node.meta["val"].dtype
    product = b.op("MatMul", b.value(x), b.value(y))
    if alpha != 1:
        product = b.op("Mul", product, b.value(alpha, dtype))
    added = b.value(bias) if beta == 1 else b.op("Mul", b.value(bias), b.value(beta, dtype))
    return b.op("Add", product, added)


@converts("einsum")
def _einsum(b: GraphBuilder, node: Node, equation: str, *operands: Any) -> str:
    values = operands[0] if isinstance(operands[0], (list, tuple)) else operands
    return b.op("Einsum", *map(b.value, values), equation=equation.replace(" ", ""))


@converts("scaled_dot_product_attention")
def _attention(b: GraphBuilder, node: Node, query: Any, key: Any, value: Any, attn_mask: Any = None,
               dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None,
               enable_gqa: bool = False) -> str:
    if dropout_p or enable_gqa:
        raise NotImplementedError("scaled_dot_product_attention with dropout or grouped queries")
    dtype, rank = b.tensor(query).dtype, b.rank(query)
    factor = 1 / math.sqrt(b.tensor(query).shape[-1]) if scale is None else scale
    order = [*range(rank - 2), rank - 1, rank - 2]
    scores = b.op("MatMul", b.op("Mul", b.value(query), b.value(float(factor), dtype)),
                  b.op("Transpose", b.value(key), perm=order))
    lowest = b.value(float("-inf"), dtype)
    if is_causal:
        ones = b.op("Expand", b.value(1.0, dtype), b.op("Shape", scores, start=-2, end=rank))
        lower_triangle = b.op("Trilu", ones, b.constant(0, "int64"), upper=0)
        scores = b.op("Where", b.op("Cast", lower_triangle, to=_ONNX_BOOL), scores, lowest)
    if attn_mask is not None:
        mask = b.value(attn_mask)
        if short(b.tensor(attn_mask).dtype) == "bool":
            scores = b.op("Where", mask, scores, lowest)
        else:
            scores = b.op("Add", scores, mask)
    return b.op("MatMul", b.op("Softmax", scores, axis=-1), b.value(value))


# ------------------------------------------------------------------------------ reductions

_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin",
               "prod": "ReduceProd", "logsumexp": "ReduceLogSumExp"}


def _create_reduction(op_type: str) -> Any:
    """Return the conversion of a reduction to an ONNX operator."""
    def convert(b: GraphBuilder, node: Node, x: Any, dim: Any = None, keepdim: bool = False,
                dtype: Any = None) -> str:
        kind = node.meta["val"].dtype
        value = b.cast(x, kind)
        if not b.rank(x):
            return value if op_type != "ReduceLogSumExp" else b.op("Identity", value)
        if short(kind) == "bool":
            value = b.op("Cast", value, to=DTYPES["int64"])
        axes = [] if dim is None or list(_as_list(dim, 1)) == [] else [b.sizes(_as_list(dim, 1))]
        result = b.op(op_type, value, *axes, keepdims=int(keepdim))
        return b.op("Cast", result, to=_ONNX_BOOL) if short(kind) == "bool" else result

    return convert


for _name, _op_type in _REDUCTIONS.items():
    CONVERSIONS[_name] = _create_reduction(_op_type)


@converts("any", op_type="ReduceMax")
@converts("all", op_type="ReduceMin")
def _any(b: GraphBuilder, node: Node, x: Any, dim: Any = None, keepdim: bool = False, *,
         op_type: str) -> str:
    truth = b.op("Cast", b.op("Cast", b.value(x), to=_ONNX_BOOL), to=DTYPES["int64"])
    if b.rank(x):
        axes = [] if dim is None else [b.sizes(_as_list(dim, 1))]
        truth = b.op(op_type, truth, *axes, keepdims=int(keepdim))
    return b.op("Cast", truth, to=DTYPES[short(node.meta["val"].dtype)])


@converts("max", extreme="Max")
@converts("min", extreme="Min")
def _max(b: GraphBuilder, node: Node, x: Any, dim: Any = None, keepdim: bool = False, *,
         extreme: str) -> Any:
    if isinstance(dim, Node):
        return b.op(extreme, b.value(x), b.value(dim))
    if not b.rank(x):
        value = b.op("Identity", b.value(x))
        return value if dim is None else (value, b.constant(0, "int64"))
    boolean = short(b.tensor(x).dtype) == "bool"
    value = b.op("Cast", b.value(x), to=DTYPES["int32"]) if boolean else b.value(x)

    def finish(result: str) -> str:
        return b.op("Cast", result, to=_ONNX_BOOL) if boolean else result

    if dim is None:
        return finish(b.op(f"Reduce{extreme}", value, keepdims=0))
    axis, keep = b.axis(x, dim), int(keepdim)
    return (finish(b.op(f"Reduce{extreme}", value, b.sizes([axis]), keepdims=keep)),
            b.op(f"Arg{extreme}", value, axis=axis, keepdims=keep))


@converts("argmax", op_type="ArgMax")
@converts("argmin", op_type="ArgMin")
def _argmax(b: GraphBuilder, node: Node, x: Any, dim: Any = None, keepdim: bool = False, *,
            op_type: str) -> str:
    if dim is None or not b.rank(x):
        result = b.op(op_type, b.op("Reshape", b.value(x), b.sizes([-1])), axis=0, keepdims=0)
        return b.op("Reshape", result, b.sizes([1] * b.rank(x))) if keepdim else result
    return b.op(op_type, b.value(x), axis=b.axis(x, dim), keepdims=int(keepdim))


@converts("topk")
def _topk(b: GraphBuilder, node: Node, x: Any, k: Any, dim: int = -1, largest: bool = True,
          sorted: bool = True) -> Any:
    return b.op("TopK", b.value(x), b.vector(k), outputs=2, axis=b.axis(x, dim),
                largest=int(largest), sorted=int(sorted))


@converts("cumsum")
def _cumsum(b: GraphBuilder, node: Node, x: Any, dim: int, **kwargs: Any) -> str:
    value = b.cast(x, node.meta["val"].dtype)
    if not b.rank(x):
        return b.op("Identity", value)
    return b.op("CumSum", value, b.constant(b.axis(x, dim), "int64"))


@converts("var", takes_root=False)
@converts("std", takes_root=True)
def _var(b: GraphBuilder, node: Node, x: Any, dim: Any = None, unbiased: Any = True,
         keepdim: bool = False, correction: Any = None, *, takes_root: bool) -> str:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    dims = list(range(b.rank(x))) if dim is None else [b.axis(x, d) for d in _as_list(dim, 1)]
    count = math.prod(int(b.tensor(x).shape[d]) for d in dims)
    subtracted = (1 if unbiased else 0) if correction is None else correction
    dtype = b.tensor(x).dtype
    axes = b.sizes(dims)
    centered = b.op("Sub", b.value(x), b.op("ReduceMean", b.value(x), axes, keepdims=1))
    total = b.op("ReduceSum", b.op("Mul", centered, centered), axes, keepdims=int(keepdim))
    result = b.op("Div", total, b.value(float(count - subtracted), dtype))
    return b.op("Sqrt", result) if takes_root else result
