"""Rules of the strided layout: arithmetic, products, softmax, normalization and padding."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..ops.core.operator import PUBLIC
from ..tensor.tensor import Tensor
from .strided_shapes import contiguous, rule
from .strided_tensor import StridedNestedTensor, map_rows, strided_from_rows

_functional = PUBLIC["nn.functional"]
_functional_attention = PUBLIC["torch"]["_native_multi_head_attention"]


def _register_copying(name: str) -> None:
    """`add` and `sub` take operands of different strides."""
    function = getattr(ops, name)

    def operate(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Tensor:
        a, b = (x.contiguous() if isinstance(x, StridedNestedTensor) else x
                for x in (input, other))
        pattern: Any = a if isinstance(a, StridedNestedTensor) else b
        y: Tensor = pattern._build_like(function(*pattern._operands(name, (a, b)), alpha=alpha))
        return y

    rule(name)(operate)


for _name in ("add", "sub"):
    _register_copying(_name)


@rule()
def masked_fill(input: StridedNestedTensor, mask: Any, value: Any) -> Tensor:
    """Fill with a number where a nested mask of the same sizes is True."""
    return map_rows(lambda x, m: x.masked_fill(m, value), input, mask)


@rule("sum")
def sum_(
    input: StridedNestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The sum of all elements, or of each row's last axis."""
    if dim is None:
        return ops.sum(contiguous(input)._values, dtype=dtype)
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    if len(dims) != 1:
        raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
    axis = input.axis(dims[0])
    if axis != input.dim() - 1:
        raise RuntimeError("NestedTensor can only be reduced across the last dimension for now "
                           f"got dimension {axis} instead.")
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    return map_rows(lambda row: row.sum(-1, True, dtype=dtype), input)


@rule("softmax")
def softmax(
    input: StridedNestedTensor, dim: Any = None, *args: Any, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """Softmax along an axis of each row."""
    if not input._sizes:
        return input
    axis = input.axis(-1 if dim is None else dim)
    if axis == 0:
        raise RuntimeError("Cannot apply softmax across nested dimension 0")
    return map_rows(lambda row: ops.softmax(row, axis - 1, dtype=dtype), input)


@rule()
def layer_norm(
    input: StridedNestedTensor, normalized_shape: Any, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, *args: Any, **kwargs: Any,
) -> Tensor:
    """Layer normalization over trailing axes in which the rows agree."""
    normalized = tuple(normalized_shape)
    if not input.is_contiguous():
        raise RuntimeError("NestedTensor must be contiguous to get buffer.")
    regular = input._array.shape[2:]
    if len(normalized) > len(regular):
        raise RuntimeError("normalized_shape extends into irregular dimensions for the nested "
                           "tensor")
    for i, n in enumerate(normalized):
        length = regular[len(regular) - len(normalized) + i]
        if length != n:
            raise RuntimeError(
                f"The shape at dimension {i}of normalized_shape doesn't match the input")
    buffer = input._values.reshape(-1, *normalized)
    y = _functional["layer_norm"](buffer, normalized, weight, bias, eps)
    return input._build_like(y.reshape(-1))


@rule()
def embedding(input: Any, weight: Any, *args: Any, **kwargs: Any) -> Tensor:
    """A row of the table for each index."""
    if not isinstance(input, StridedNestedTensor):
        input, weight = weight, input
    y = _functional["embedding"](input._values, weight, *args, **kwargs)
    return StridedNestedTensor(y.reshape(-1), [(*n, y.shape[-1]) for n in input._sizes])


@rule()
def linear(input: Any, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map of the rows' last axis."""
    if isinstance(weight, StridedNestedTensor):
        raise RuntimeError("Linear does not support nested weight when input is a nested tensor.")
    if input.dim() != 3 or weight.dim() != 2:
        raise RuntimeError("Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. "
                           f"Nested tensor dim: {input.dim()}. Dense tensor dim: {weight.dim()}")
    if not input.is_contiguous():
        raise RuntimeError("for now linear only supports contiguous nested tensor")
    width = input._array.shape[-1]
    if width == -1:
        lengths = [n[-1] for n in input._sizes]
        raise RuntimeError("Expected all tensors in nested tensor to have the same trailing "
                           f"dimension, instead last dimension equals: {lengths}")
    if width != weight.shape[1]:
        raise RuntimeError("Shape mismatch for NestedTensor Linear: Expected input's (a nested "
                           f"tensor) 'last_dim' to equal 'weight.size(1), but got: last_dim = "
                           f"{width}, and weight.size(1) = {weight.shape[1]}")
    y = _functional["linear"](input._values.reshape(-1, width), weight, bias)
    return StridedNestedTensor(y.reshape(-1), [(*n[:-1], y.shape[-1]) for n in input._sizes])


def _list_rows(x: Any) -> tuple[Tensor, ...]:
    rows: tuple[Tensor, ...] = x.unbind()
    return rows


@rule()
def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of the rows, which are matrices."""
    for i, x in enumerate((input, mat2)):
        if x.dim() != 3:
            raise RuntimeError(f"batch{i + 1} must be a 3D tensor")
    a, b = _list_rows(input), _list_rows(mat2)
    if len(a) != len(b):
        raise RuntimeError("Expected size for the 1st dimension of batch2 tensor to be: "
                           f"{len(a)} but got: {len(b)}.")
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if x.shape[1] != y.shape[0]:
            raise RuntimeError(f"{i}-th nested matrices in batch cannot be multiplied "
                               f"({x.shape[0]}x{x.shape[1]} and {y.shape[0]}x{y.shape[1]})")
    return strided_from_rows([ops.mm(x, y) for x, y in zip(a, b, strict=True)])


@rule("matmul", "__matmul__", "__rmatmul__")
def matmul(input: Any, other: Any) -> Tensor:
    """Products of the rows; a dense matrix multiplies each of them."""
    if isinstance(input, StridedNestedTensor) and not isinstance(other, StridedNestedTensor) \
            and other.dim() == 2 and input.dim() >= 4:
        return map_rows(lambda row: ops.matmul(row, other), input)
    if input.is_nested != other.is_nested:
        descriptions = ("nested", "non-nested") if input.is_nested else ("non-nested", "nested")
        if {input.dim(), other.dim()} != {3}:
            raise RuntimeError(f"Expected both to be nested, but got a {descriptions[0]} self and "
                               f"{descriptions[1]} other")
        return bmm(input, other)
    for i, x in enumerate((input, other)):
        if x.dim() < 3:
            raise RuntimeError("matmul: For nested tensors, only inputs with >= 3 dims are "
                               f"currently supported. {'1st' if i == 0 else '2nd'} input has "
                               f"rank: {x.dim()}")
    a, b = _list_rows(input), _list_rows(other)
    if len(a) != len(b):
        raise RuntimeError("matmul: Expected size for the 1st dimension of 2nd input tensor to be: "
                           f"{len(a)} but got: {len(b)}.")
    for x, y in zip(a, b, strict=True):
        if x.shape[:-2] != y.shape[:-2]:
            raise RuntimeError("matmul: For nested tensors, batch dimensions must have the same "
                               f"sizes, got {list(x.shape)} and {list(y.shape)}")
        if x.shape[-1] != y.shape[-2]:
            raise RuntimeError("matmul: Nested tensors cannot be matrix multiplied, got "
                               f"{list(x.shape)} and {list(y.shape)}")
    return strided_from_rows([ops.matmul(x, y) for x, y in zip(a, b, strict=True)])


@rule()
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:
    """Attention within each row."""
    for condition, is_set in (("an explicit attn_mask is set", attn_mask is not None),
                              ("is_causal=True", is_causal)):
        if is_set:
            raise RuntimeError("scaled_dot_product_attention: Nested tensors for query / key / "
                               f"value are not supported when {condition}")
    attend = _functional["scaled_dot_product_attention"]
    return map_rows(
        lambda q, k, v: attend(q, k, v, dropout_p=dropout_p, scale=scale, enable_gqa=enable_gqa),
        query, key, value)


@rule()
def to_padded_tensor(
    input: StridedNestedTensor, padding: float, output_size: Any = None, out: Any = None
) -> Tensor:
    """The rows in a dense tensor, filled up with `padding` along every axis."""
    if not input.is_contiguous():
        raise RuntimeError("for now to_padded_tensor only supports contiguous nested tensor")
    rows = input.rows()
    if not rows:
        return ops.empty((0,), dtype=input.dtype)
    if input.numel() == 0:
        raise RuntimeError("to_padded_tensor: at least one constituent tensor should have non-zero "
                           "numel")
    largest = [max(column) for column in zip(*input._sizes, strict=True)]
    target = largest if output_size is None else list(output_size[1:])
    if len(target) != len(largest):
        raise RuntimeError("Length of output_size does not match NestedTensor dims. Broadcasting "
                           "is not supported.")
    if any(t < n for t, n in zip(target, largest, strict=True)):
        raise RuntimeError("Value in output_size is less than NestedTensor padded size. Truncation "
                           "is not supported.")
    padded = []
    for row in rows:
        gaps: list[int] = []
        for longest, n in zip(reversed(target), reversed(row.shape), strict=True):
            gaps += [0, longest - n]
        padded.append(_functional["pad"](row, gaps, value=padding))
    return ops.stack(padded)


@rule("native_multi_head_attention")
def attend(
    query: StridedNestedTensor, key: Any, value: Any, *projections: Any
) -> tuple[Tensor, Tensor | None]:
    """Attention within each row; weights are padded with zeros to the longest row."""
    outputs, weights = [], []
    for q, k, v in zip(query.unbind(), key.unbind(), value.unbind(), strict=True):
        y, w = _functional_attention(q[None], k[None], v[None], *projections)
        outputs.append(y[0])
        weights.append(w)
    nested = strided_from_rows(outputs)
    if weights[0] is None:
        return nested, None
    longest = max(w.shape[-1] for w in weights)
    padded = [_functional["pad"](w, (0, longest - w.shape[-1], 0, longest - w.shape[-2]))
              for w in weights]
    return nested, ops.cat(padded)
