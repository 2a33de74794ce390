"""Linear layers: input @ weight.T + bias, and the bilinear form of two inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.unbroadcast import sum_to_shape
from ...native.foundation.user_frames import add_notes
from ...native.target.eager_costs import MIN_PRODUCT_LHS_ELEMENTS
from ...tensor.dtypes import FLOAT32, FLOAT64, FROM_NUMPY
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..native.matmul import try_product
from .matmul import multiply_matrices

_BLAS = (FLOAT32, FLOAT64)


def _samples(rng: Rng) -> Iterator[Sample]:
    for left, right in (((3, 4), (5, 4)), ((4,), (5, 4)), ((2, 3, 4), (5, 4)), ((3, 4), (4,))):
        yield (rng.normal(size=left), rng.normal(size=right)), {}
    yield (rng.normal(size=(3, 4)), rng.normal(size=(2, 4)), rng.normal(size=2)), {}
    yield (rng.normal(size=(2, 2, 3)), rng.normal(size=(2, 3)), rng.normal(size=2)), {}


def _reference(input: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    y = np.einsum("...i,ji->...j" if weight.ndim == 2 else "...i,i->...", input, weight)
    return y if bias is None else y + bias


def _find_overload(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> int:
    """The last operator that PyTorch composes the layer of: a product of matrices, or the view that
    restores the axes of other inputs."""
    rank = input._array.ndim
    return int(rank != 2) if bias is not None else 2 if rank == 2 else 4 if rank == 1 else 3


@opaque(extents_follow=True,
        autocast=Policy.LOWER, linear_in="input * weight + bias", layout=Layout.FREE,
        expose=("nn.functional",), overload=_find_overload,
        node=("AddmmBackward0", "ViewBackward0", "MmBackward0", "UnsafeViewBackward0",
              "SqueezeBackward4"), edges=("bias", "input", "weight"),
        ref=_reference, samples=_samples)
def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    """Compute input @ weight.T + bias.

    input (..., in), weight (out, in) or (in,), bias (out,): result (..., out).

    >>> torch.nn.functional.linear(torch.ones(1, 2), torch.tensor([[1., 2.]]))
    tensor([[3.]])
    """
    if weight.ndim != 2 or not input.ndim:
        _check_ranks(input.ndim, weight.ndim, bias is not None)
    try:
        kind = input.dtype
        if kind is weight.dtype and kind in _BLAS and (bias is None or bias.dtype is kind):
            if input.size > MIN_PRODUCT_LHS_ELEMENTS or input.ndim > 2:
                return _multiply_rows(input, weight, bias)
            y = input.dot(weight.T)
            if bias is not None:
                y += bias
            return y
    except ValueError:
        pass  # sizes that do not match: `_check` raises PyTorch's error
    _check(input, weight, bias)
    if weight.ndim == 2 and input.size > MIN_PRODUCT_LHS_ELEMENTS and input.dtype is weight.dtype:
        rows = flatten_rows(input)
        y = try_product(rows, weight.T, bias)
        if y is not None:
            return y.reshape(*input.shape[:-1], y.shape[1])
    if input.ndim > 2:
        rows = multiply_matrices(flatten_rows(input), weight.T)
        y = rows.reshape(input.shape[:-1] + rows.shape[1:])
    else:
        y = multiply_matrices(input, weight.T)
    return y if bias is None else (y + bias).astype(y.dtype, copy=False)


def flatten_rows(input: Array) -> Array:
    """The last axis as rows of a matrix; -1 does not tell how many empty ones there are."""
    return input.reshape(math.prod(input.shape[:-1]), input.shape[-1])


def _check_ranks(rank: int, weight_rank: int, has_bias: bool) -> None:
    """Raise PyTorch's errors for inputs that are numbers, and weights that are no matrices. A
    vector without a bias is the weight of one feature."""
    if not rank or not weight_rank:
        raise RuntimeError("both arguments to linear need to be at least 1D, but they are "
                           f"{rank}D and {weight_rank}D")
    if weight_rank > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {weight_rank}D")
    if has_bias:
        raise RuntimeError(f"mat2 must be a matrix, got {weight_rank}-D tensor")


def _multiply_rows(input: Array, weight: Array, bias: Array | None) -> Array:
    """linear of a stack of rows, or of many."""
    rows = flatten_rows(input) if input.ndim > 2 else input
    y = try_product(rows, weight.T, bias) if rows.size > MIN_PRODUCT_LHS_ELEMENTS else None
    if y is None:
        y = rows.dot(weight.T)
        if bias is not None:
            y += bias
    return y if rows is input else y.reshape(input.shape[:-1] + y.shape[1:])


def _advise_on_features(shape: tuple[int, ...], features: int) -> str:
    """What to do about an input of another length."""
    rest = math.prod(shape[1:])
    if len(shape) > 2 and rest == features:
        return (f"flatten the input first: x.flatten(1) has {' * '.join(map(str, shape[1:]))} = "
                f"{rest} features")
    if len(shape) > 1 and shape[-2] == features:
        return f"axis {len(shape) - 2} has {features}: transpose the last two axes?"
    return f"the layer fits with in_features={shape[-1]}"


def _check(input: Array, weight: Array, bias: Array | None) -> None:
    for other, label in ((weight, "mat2"), (bias, "bias")):
        if other is not None and other.dtype != input.dtype:
            kinds = [legacy_name(FROM_NUMPY[x.dtype]) for x in (input, other)]
            raise add_notes(
                RuntimeError(f"mat1 and {label} must have the same dtype, but got {kinds[0]} and "
                             f"{kinds[1]}"),
                f"Convert the input to the layer's dtype: x.to({FROM_NUMPY[other.dtype]}). NumPy's "
                "arrays are float64 unless they are told otherwise.",
            )
    if input.shape[-1] != weight.shape[-1]:
        rows = input.size // max(input.shape[-1], 1)
        shapes = f"{rows}x{input.shape[-1]}"
        if weight.ndim == 1:
            raise RuntimeError(f"size mismatch, got input ({rows}), mat ({shapes}), vec "
                               f"({weight.shape[0]})")
        raise add_notes(
            RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes} and "
                         f"{weight.shape[1]}x{weight.shape[0]})"),
            f"The layer expects {weight.shape[1]} features, the input has the shape "
            f"{tuple(input.shape)}.",
            _advise_on_features(tuple(input.shape), weight.shape[1]),
        )
    out = input.shape[:-1] + weight.shape[:-1]
    if bias is not None and (bias.ndim > len(out) or any(
        n not in (1, m) for n, m in zip(bias.shape[::-1], out[::-1], strict=False)
    )):
        raise RuntimeError(
            f"linear(): bias of shape {list(bias.shape)} does not fit the output {list(out)}: the "
            f"expanded size of the tensor ({out[-1] if out else 1}) must match the existing size"
        )


@linear.batch
def _(batch: Batch, input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    if not batch.holds(weight) and not batch.holds(bias):
        return linear(batch.lower(input), weight, bias)
    if weight.dim() != 2:
        return NotImplemented
    if not batch.holds(weight):
        y = linear(batch.lower(input), batch.lower(weight))
    else:
        rows, turned = batch.lower(input), batch.lower(weight).transpose(1, 2)
        lengths = input.shape[:-1]
        if batch.holds(input):
            rows = rows.reshape(batch.size, math.prod(lengths), rows.shape[-1])
        elif input.dim() != 2:
            rows = rows.reshape(math.prod(lengths), rows.shape[-1])
        y = (rows @ turned).reshape(batch.size, *lengths, weight.shape[0])
    if bias is None:
        return y
    added = batch.view(bias, *[1] * (input.dim() - 1)) if batch.holds(bias) else batch.lower(bias)
    return y + added


@linear.vjp("input")
def _(g: Tensor, weight: Tensor) -> Tensor:
    return g @ weight if weight._array.ndim == 2 else g.unsqueeze(-1) * weight


@linear.vjp("weight")
def _(g: Tensor, input: Tensor, weight_shape: tuple[int, ...]) -> Tensor:
    if len(weight_shape) == 1:
        return sum_to_shape(g.unsqueeze(-1) * input, weight_shape)
    return multiply_rows(g, input)


@linear.vjp("bias")
def _(g: Tensor, bias_shape: tuple[int, ...]) -> Tensor:
    if len(bias_shape) == 1 and g._array.ndim == 2 and g._array.shape[1] == bias_shape[0]:
        return g.sum(0)
    return sum_to_shape(g, bias_shape)


@opaque(linear_in="input * other", layout=Layout.FREE, name="_rows_product", expose=(),
        node="MmBackward0",
        ref=lambda a, b: np.einsum("ni,nj->ij", a.reshape(-1, a.shape[-1]),
                                   b.reshape(-1, b.shape[-1])),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), rng.normal(size=(3, 2))), {}),
                                  ((rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 2))), {}),
                                  ((rng.normal(size=4), rng.normal(size=2)), {})]))
def multiply_rows(input: Array, other: Array) -> Array:
    """Return input.T @ other, with leading axes flattened: the gradient of a weight."""
    if input.ndim != 2:
        input = input.reshape(-1, input.shape[-1])
        other = other.reshape(-1, other.shape[-1])
    if input.dtype in _BLAS:
        if input.size > MIN_PRODUCT_LHS_ELEMENTS \
                and (y := try_product(input.T, other)) is not None:
            return y
        return np.dot(input.T, other)
    return multiply_matrices(input.T, other)


@multiply_rows.batch
def _(batch: Batch, input: Tensor, other: Tensor) -> Tensor:
    left, right = (
        batch.lower(x).reshape(*[batch.size] * batch.holds(x), math.prod(x.shape[:-1]), x.shape[-1])
        for x in (input, other)
    )
    return left.transpose(-2, -1) @ right


@multiply_rows.vjp("input")
def _(g: Tensor, other: Tensor) -> Tensor:
    return linear(other, g)


@multiply_rows.vjp("other")
def _(g: Tensor, input: Tensor) -> Tensor:
    return input @ g


@composite(autocast=Policy.AS_IS, expose=("torch", "nn.functional"))
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute input1 @ weight[k] @ input2 + bias[k] for each k.

    input1 (..., n), input2 (..., m), weight (out, n, m), bias (out,): result (..., out).

    >>> torch.bilinear(torch.tensor([1., 2.]), torch.tensor([3., 4.]), torch.eye(2)[None])
    tensor([11.])
    """
    left, right, shape = input1._array.shape, input2._array.shape, weight._array.shape
    if left[:-1] != right[:-1]:
        raise RuntimeError(
            "bilinear(): input dimensions do not match: got "
            f"{list(left)} and {list(right)}: all but the last must be equal"
        )
    for number, size, n in ((1, left, shape[1]), (2, right, shape[2])):
        if not size or size[-1] != n:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got "
                f"{list(size)[-1:]} but expected {n} (weight {list(shape)})"
            )
    if bias is not None and bias._array.shape != shape[:1]:
        raise RuntimeError(
            "bilinear(): bias size does not match weight size: got "
            f"{list(bias.shape)} but expected {shape[0]}"
        )
    out, n, m = shape
    flat = weight.permute(1, 0, 2).reshape(n, out * m)
    y = (input1.reshape(-1, n) @ flat).reshape(-1, out, m)
    y = (y @ input2.reshape(-1, m, 1)).reshape(*left[:-1], out)
    return y if bias is None else y + bias
