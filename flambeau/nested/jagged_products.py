"""Rules of the jagged layout: products, attention, embeddings and choices between tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..ops.core.operator import PUBLIC
from ..tensor.tensor import Tensor
from .jagged_shapes import check_plain, rule, unbind
from .jagged_tensor import NestedTensor, has_same_ragged_sizes
from .packing import pack, pad

_functional = PUBLIC["nn.functional"]


@rule()
def linear(input: NestedTensor, weight: Tensor, bias: Tensor | None = None) -> NestedTensor:
    """A linear map of the last axis."""
    check_plain(input, "linear_default(input: jt, weight: t, bias: t?)")
    return input._build_like(_functional["linear"](input._values, weight, bias))


@rule("matmul", "__matmul__", "__rmatmul__")
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix products, also along the ragged axis."""
    a, b = input, other
    if isinstance(a, NestedTensor) and isinstance(b, NestedTensor):
        if a.dim() > 3 and b.dim() > 3 and has_same_ragged_sizes(a, b._size):
            return a._build_like(ops.matmul(a._values, b._values))
        if a.dim() == b.dim() == 3 and a._ragged_idx == 2 and b._ragged_idx == 1 \
                and a._size[2] == b._size[1]:
            return ops.stack([x @ y for x, y in zip(unbind(a), unbind(b), strict=True)])
    elif isinstance(a, NestedTensor):
        is_ragged_inner = a._ragged_idx < a.dim() - 1
        if a.dim() >= 3 and a.dim() == b.dim() and is_ragged_inner:
            return a._build_like(pack(a, ops.matmul(pad(a, 0), b)))
        if b.dim() == 2 and a.dim() > 2 and is_ragged_inner:
            return a._build_like(ops.matmul(a._values, b))
    elif isinstance(b, NestedTensor):
        if b.dim() >= 3 and b.dim() == a.dim() and b._ragged_idx >= 2:
            return b._build_like(pack(b, ops.matmul(a, pad(b, 0))))
        if a.dim() == 2 and b.dim() > 2 and b._ragged_idx >= 2:
            return b._build_like(ops.matmul(a, b._values))
    shapes = [x._size if isinstance(x, NestedTensor) else tuple(x.shape) for x in (a, b)]
    raise RuntimeError(f"matmul(): not supported between inputs of shapes {shapes[0]} and "
                       f"torch.Size({list(shapes[1])})")


@rule()
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`matmul` of batches of matrices."""
    if input.dim() != 3:
        raise ValueError("bmm(): input must be 3D")
    if mat2.dim() != 3:
        raise ValueError("bmm(): mat2 must be 3D")
    return matmul(input, mat2)


@rule()
def embedding(input: Tensor, weight: Tensor, *args: Any, **named: Any) -> NestedTensor:
    """A row of the table for each index; `torch.embedding` takes the table first."""
    if isinstance(input, NestedTensor):
        check_plain(input, "embedding_default(weight: t, indices: jt, padding_idx: any?, "
                           "scale_grad_by_freq: any?, sparse: any?)")
        return input._build_like(_functional["embedding"](input._values, weight, *args, **named))
    indices: Any = weight
    return indices._build_like(ops.embedding(input, indices._values, *args, **named))


@rule()
def where(condition: Any, input: Any, other: Any) -> NestedTensor:
    """Elements of either tensor, as the condition says."""
    operands = broadcast_tensors(*[x if isinstance(x, Tensor) else ops.tensor(x)
                                   for x in (condition, input, other)])
    first = operands[0]
    return first._build_like(ops.where(*[x._values for x in operands]))


@rule()
def broadcast_tensors(*tensors: Any) -> Sequence[Any]:
    """Repeat tensors of lower rank than the first nested tensor over its rows."""
    nt = next(t for t in tensors if isinstance(t, NestedTensor))
    results = []
    for t in tensors:
        if isinstance(t, NestedTensor):
            results.append(t.broadcast_to(nt._size))
        elif t.dim() < nt.dim():
            results.append(nt._build_like(t.broadcast_to(nt._values.shape)))
        else:
            raise ValueError("broadcast_tensors(): broadcasting nested tensors with dense tensors "
                             "of equal or higher dim is not currently supported")
    return results


@rule()
def convolution(input: NestedTensor, *args: Any, **named: Any) -> NestedTensor:
    """A convolution of each place of the rows, which are the images."""
    check_plain(input, "convolution_default(input: jt, weight: t, bias: t?, stride: any, padding: "
                       "any, dilation: any, transposed: any, output_padding: any, groups: any)")
    return input._build_like(ops.convolution(input._values, *args, **named))


def _register_convolution(name: str) -> None:
    function = _functional[name]

    def convolve(input: NestedTensor, *args: Any, **named: Any) -> NestedTensor:
        check_plain(input, f"{name}(input: jt, weight: t, ...)")
        return input._build_like(function(input._values, *args, **named))

    rule(name)(convolve)


for _rank in (1, 2, 3):
    _register_convolution(f"conv{_rank}d")
    _register_convolution(f"conv_transpose{_rank}d")


# -------------------------------------------------------------------------------------- attention


def _check_attention(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    operands = {"query": query, "key": key, "value": value}
    if not all(isinstance(x, NestedTensor) for x in operands.values()):
        nested = [f"{name}.is_nested: {x.is_nested}" for name, x in operands.items()]
        raise ValueError("Expected query, key, and value to be nested tensors, but got "
                         f"{nested[0]}, {nested[1]}, and {nested[2]} instead.")
    if len({x.dtype for x in operands.values()}) != 1:
        raise ValueError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead.")
    if any(x.dim() < 3 for x in operands.values()):
        raise ValueError(
            "Expected query, key, and value to all be at least 3 dimensional, but got query.dim: "
            f"{query.dim()}, key.dim: {key.dim()} and value.dim: {value.dim()} instead.")
    if len({x._ragged_idx for x in operands.values()}) != 1:
        raise ValueError(
            "Expected query, key, and value to all be ragged on the same dimension, but got ragged "
            f"dims {query._ragged_idx}, {key._ragged_idx}, and {value._ragged_idx}, respectively.")
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")


@rule()
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:
    """Attention within each row: (batch, heads, *, width). No row is padded."""
    _check_attention(query, key, value, attn_mask)
    attend = _functional["scaled_dot_product_attention"]
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
    if query._ragged_idx == 1 and query.dim() > 3:  # each row is a batch
        return query._build_like(attend(query._values, key._values, value._values, **options))
    rows = [attend(*row_operands, enable_gqa=enable_gqa, **options)
            for row_operands in zip(unbind(query), unbind(key), unbind(value), strict=True)]
    if query._lengths is None:
        return query._build_like(ops.cat(rows, query._ragged_idx - 1))
    from .jagged_tensor import jagged_from_list

    swapped = [row.transpose(0, query._ragged_idx - 1) for row in rows]
    return jagged_from_list(swapped, None)[0].transpose(1, query._ragged_idx)
