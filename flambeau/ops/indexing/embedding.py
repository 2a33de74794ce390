"""Embeddings: rows of a table by index, and their gradients (dense or sparse); one_hot.

torch.embedding takes the table first, nn.functional.embedding the indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.inplace import bump
from ...native.foundation.user_frames import add_notes
from ...native.target.eager_costs import MAX_NUMPY_EMBEDDING_ELEMENTS
from ...tensor.capture_marks import peek
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.batch import Batch, get_elements
from ..core.arguments.checks import require_int
from ..core.operator import PUBLIC, Array, publish
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque, repeats_operators
from ..core.sample_inputs import Rng, Sample
from ..core.value_rules import make_index_rule
from ..native.embedding import take_rows
from ..native.row_copies import allocate_zeros
from .index import add_rows


def _samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(5, 3)), rng.integers(0, 5, (2, 4))), {}
    yield (rng.normal(size=(5, 3)), rng.integers(0, 5, 6), 2), {}
    yield (rng.normal(size=(5, 3)), np.asarray(4)), {}


def check_indices(indices: Array, rows: int, name: str, adds: bool = False) -> None:
    """Raise RuntimeError unless indices are int32 or int64, IndexError if one is out of range.

    `adds`: whether PyTorch's kernel adds rows, which words the error in its own way.
    """
    if indices.dtype != np.int64 and indices.dtype != np.int32:
        kind = legacy_name(FROM_NUMPY[indices.dtype])
        raise add_notes(
            RuntimeError(
                "Expected tensor for argument #1 'indices' to have one of the following scalar "
                f"types: Long, Int; but got torch.{kind}Tensor instead (while checking arguments "
                f"for {name})"),
            f"The indices are {FROM_NUMPY[indices.dtype]}: indices.long() makes them int64.",
        )
    if indices.__class__ is np.ndarray and indices.dtype == np.int64 \
            and np.maximum.reduce(indices.view(np.uint64), None, initial=0) < rows:
        return  # as uint64, negative indices are the largest: one comparison tests both bounds
    if indices.size and (np.minimum.reduce(indices, None) < 0
                         or np.maximum.reduce(indices, None) >= rows):
        flat = indices.reshape(-1)
        position = np.flatnonzero((flat < 0) | (flat >= rows))[0]
        outlier = flat[position]
        error: Exception = IndexError("index out of range in self")
        if name == "embedding_bag":
            error = RuntimeError(
                f"Index {position} of input takes value {outlier} which is not in the valid range "
                f"[0, {rows})" if adds else
                "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
                f"{outlier}"
            )
        error.add_note(f"{name}: index {outlier} of a table of {rows} rows.")
        raise error


def _bound_rows(weight: Any, indices: Any, *_: Any) -> list[tuple[Any, int]]:
    return [(indices, weight.shape[0])] if len(weight.shape) == 2 else []


@opaque(extents_follow=True, linear_in="weight", layout=Layout.FREE,
        name="_embedding", node="EmbeddingBackward0", expose=(), samples=_samples,
        values=make_index_rule("indices", _bound_rows),
        ref=lambda weight, indices, padding_idx=-1: weight[indices])
def rows_of(
    weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False
) -> Array:
    """Return the rows of `weight` at `indices`."""
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, but it is {weight.ndim}-D (embedding)")
    check_indices(indices, weight.shape[0], "embedding")
    if indices.size * weight.shape[1] > MAX_NUMPY_EMBEDDING_ELEMENTS \
            and (y := take_rows(weight, indices)) is not None:
        return y
    return weight.take(indices, 0)


@rows_of.batch
def _(
    batch: Batch, weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    if not batch.holds(weight):
        return rows_of(batch.lower(weight), batch.lower(indices), padding_idx, scale_grad_by_freq)
    check_indices(get_elements(batch.lower(indices)), weight.shape[0], "embedding")
    return rows_of(
        batch.lower(weight).flatten(0, 1), _offset_indices(batch, indices, weight.shape[0])
    )


@rows_of.vjp("weight")
def _(
    g: Tensor, indices: Tensor, weight_shape: tuple[int, ...], padding_idx: int,
    scale_grad_by_freq: bool
) -> Tensor:
    return embedding_dense_backward(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq)


def _sum_rows(
    g: np.ndarray, indices: np.ndarray, rows: int, padding_idx: int, by_frequency: bool
) -> np.ndarray:
    result, counts = np.zeros((rows, g.shape[-1])), np.zeros(rows)
    for i, part in zip(indices.reshape(-1), g.reshape(-1, g.shape[-1]), strict=True):
        result[i] += part * (i != padding_idx)
        counts[i] += 1
    return result / np.maximum(counts, 1)[:, None] if by_frequency else result


def _gradient_samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(2, 4, 3)), rng.integers(0, 5, (2, 4)), 5, -1, False), {}
    yield (rng.normal(size=(6, 3)), rng.integers(0, 4, 6), 4, 1, True), {}


@opaque(linear_in="grad_output",
        layout=Layout.FREE, expose=("torch",), ref=_sum_rows, samples=_gradient_samples)
def embedding_dense_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """Return the gradient of an embedding table.

    Rows of `grad_output` are summed by index, except at `padding_idx`.

    >>> torch.embedding_dense_backward(torch.ones(3, 2), torch.tensor([0, 2, 2]), 3, -1, False)
    tensor([[1., 1.],
            [0., 0.],
            [2., 2.]])
    """
    width = grad_output.shape[-1]
    flat, g = indices.reshape(-1), grad_output.reshape(-1, width)
    if padding_idx >= 0 and (flat == padding_idx).any():
        valid = flat != padding_idx
        flat, g = flat[valid], g[valid]
    inside = compute_dtype(g.dtype)
    g = g.astype(inside, copy=False)
    if scale_grad_by_freq:
        g = g / np.bincount(flat, minlength=num_weights)[flat][:, None].astype(inside)
    result = allocate_zeros((num_weights, width), inside)
    if flat.size:
        add_rows(result, (flat,), g)
    return result.astype(grad_output.dtype, copy=False)


@embedding_dense_backward.batch
def _(
    batch: Batch, grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
    scale_grad_by_freq: bool
) -> Any:
    if padding_idx >= 0:
        return NotImplemented
    rows = _offset_indices(batch, indices, num_weights)
    y = embedding_dense_backward(batch.expand(grad_output), rows, batch.size * num_weights,
                                 padding_idx, scale_grad_by_freq)
    return y.reshape(batch.size, num_weights, -1)


def _offset_indices(batch: Batch, indices: Tensor, rows: int) -> Tensor:
    """Return indices into the concatenation of the examples' tables."""
    starts = wrap(np.arange(0, batch.size * rows, rows or 1)[: batch.size])
    return batch.expand(indices) + starts.reshape(-1, *[1] * indices.dim())


@embedding_dense_backward.vjp("grad_output")
def _(g: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    y = rows_of(g, indices)
    flat = indices._array
    if scale_grad_by_freq and flat.size:
        counts = np.bincount(flat.reshape(-1))[flat][..., None]
        y = y / wrap(counts.astype(g._array.dtype))
    if padding_idx >= 0:
        y = y.masked_fill(wrap((flat == padding_idx)[..., None]), 0)
    return y


@opaque(linear_in="weight",
        layout=Layout.FREE, name="_embedding_sparse", node="EmbeddingBackward0", expose=())
def rows_of_sparsely(
    weight: Array, indices: Array, padding_idx: Any = -1, scale_grad_by_freq: bool = False
) -> Array:
    """Return the rows of `weight` at `indices`; the gradient of `weight` is sparse."""
    return rows_of.operator.body(weight, indices)


@rows_of_sparsely.vjp("weight")
def _(
    g: Tensor, indices: Tensor, weight_shape: tuple[int, ...], padding_idx: Any,
    scale_grad_by_freq: bool
) -> Tensor:
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    rows = indices._array.reshape(-1) if g.numel() else indices._array.reshape(-1)[:0]
    g = g.reshape(rows.size, weight_shape[1])
    return PUBLIC["sparse"]["scatter_rows"](g, rows, weight_shape[0], padding_idx)


@composite(name="torch.embedding", expose=())
def _embedding(
    weight: Tensor, indices: Tensor, padding_idx: int | None = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False
) -> Tensor:
    """Look up the rows of `weight` (rows, width) at `indices`: (*indices.shape, width).

    Raises IndexError for an index outside the table.

    >>> torch.embedding(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1, 1, 0]))
    tensor([[3., 4.],
            [3., 4.],
            [1., 2.]])
    """
    if padding_idx.__class__ is not int:
        require_int("embedding", "padding_idx", padding_idx, 3)
    look_up = rows_of_sparsely if sparse else rows_of
    return look_up(weight, indices, padding_idx, scale_grad_by_freq)


publish(_embedding, ("embedding",), ("torch",))


@composite(expose=("torch",), explains=True)
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale down the rows at `indices` whose norm exceeds `max_norm`, in place.

    >>> table = torch.tensor([[3., 4.], [0.3, 0.4]])
    >>> torch.embedding_renorm_(table, torch.tensor([0, 1]), 1.0, 2.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    table = peek(input)
    check_indices(peek(indices), table.shape[0], "embedding_renorm_")
    rows = np.unique(indices._array)
    chosen = table[rows].astype(np.float64)
    norms = np.linalg.norm(chosen, norm_type, axis=1) if rows.size else np.zeros(0)
    large = norms > max_norm
    if large.any():
        scale = max_norm / (norms[large] + 1e-7)
        table[rows[large]] = (chosen[large] * scale[:, None]).astype(table.dtype)
    bump(input)
    return input


@repeats_operators()
@composite(expose=("nn.functional",))
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Look up the rows of `weight` (rows, width) at the indices `input`: (*input.shape, width).

    The row `padding_idx` gets no gradient. Rows whose norm exceeds `max_norm` are first scaled
    down in place. Raises IndexError for an index outside the table.

    Args:
        input: Indices into the table, int64 or int32, of any shape.

    >>> torch.nn.functional.embedding(torch.tensor([1, 0]), torch.tensor([[1., 2.], [3., 4.]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        require_int("embedding", "padding_idx", padding_idx, 3)
        rows = weight._array.shape[0]
        if not -rows <= padding_idx < rows and padding_idx:
            raise AssertionError(
                f"Padding_idx must be within num_embeddings ({padding_idx} of {rows})"
            )
        padding_idx += rows if padding_idx < 0 else 0
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    look_up = rows_of_sparsely if sparse else rows_of
    return look_up(weight, input, padding_idx, scale_grad_by_freq)


@composite(expose=("nn.functional",), explains=True)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return int64 one-hot vectors of class indices: (*tensor.shape, num_classes).

    num_classes defaults to the largest index plus one. Raises RuntimeError for indices outside
    [0, num_classes).

    Args:
        tensor: Class indices, int64, of any shape.

    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    classes = peek(tensor)
    if classes.dtype != np.int64:
        raise add_notes(
            RuntimeError("one_hot is only applicable to index tensor of type LongTensor."),
            f"The classes are {tensor.dtype}: tensor.long() makes them int64.",
        )
    if not classes.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return wrap(np.empty((*classes.shape, num_classes), np.int64))
    if classes.min() < 0:
        raise RuntimeError(f"Class values must be non-negative, but got {classes.min()}.")
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    elif num_classes < 1:
        raise RuntimeError(f"num_classes should be positive, but got {num_classes}")
    elif classes.max() >= num_classes:
        raise add_notes(
            RuntimeError("Class values must be smaller than num_classes."),
            f"The greatest is {classes.max()}; with num_classes={num_classes} they run from 0 to "
            f"{num_classes - 1}.",
        )
    result = np.zeros((classes.size, num_classes), np.int64)
    result[np.arange(classes.size), classes.reshape(-1)] = 1
    return wrap(result.reshape(*classes.shape, num_classes))
