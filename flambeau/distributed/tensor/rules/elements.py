"""Reads and writes of elements at indices: embedding, gather, index_select, index, scatter.

The axes that an index does not choose from may be cut, and so may the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..placement_types import Partial, Placement, Replicate, Shard
from ..propagation import Operation, Rule, Strategy, partial_sum
from ..spec import DTensorSpec
from .views import pass_partial


def _embedding(operation: Operation) -> Iterator[Strategy]:
    """Yield cuts of the indices and of the weight: by columns, or by rows as a partial sum."""
    weight, indices = operation.inputs[:2]
    del weight
    for dim in range(indices.ndim):
        yield Strategy(Shard(dim), (Replicate(), Shard(dim)))
    yield Strategy(Shard(indices.ndim), (Shard(1), Replicate()))
    yield Strategy(Partial(), (Shard(0), Replicate()))


def _embedding_backward(operation: Operation) -> Iterator[Strategy]:
    g, indices = operation.inputs
    for dim in range(indices.ndim):
        yield Strategy(Partial(), (Shard(dim), Shard(dim)))
    yield Strategy(Shard(1), (Shard(g.ndim - 1), Replicate()))
    placement = g.placements[operation.axis]
    if partial_sum(placement):
        yield Strategy(placement, (placement, Replicate()))


def _other_dims(operation: Operation, rest: int) -> Iterator[Strategy]:
    """Yield cuts of the axes other than the argument `dim`, where all tensors have equal size."""
    specs = operation.inputs[: rest + 1]
    chosen = operation.argument(1, "dim") % max(specs[0].ndim, 1)
    for dim in range(specs[0].ndim):
        sizes = {spec.shape[dim] for spec in specs if spec.ndim == specs[0].ndim}
        if dim != chosen and len(sizes) == 1:
            inputs = [Shard(dim) if spec.ndim == specs[0].ndim else Replicate()
                      for spec in operation.inputs]
            yield Strategy(Shard(dim), tuple(inputs))


def _gather(operation: Operation) -> Iterator[Strategy]:
    x, index = operation.inputs
    yield from _other_dims(operation, 1)
    for dim in range(index.ndim):
        yield Strategy(Shard(dim), (Replicate(), Shard(dim)))
    yield from _pass_first(operation, x)


def _pass_first(operation: Operation, x: DTensorSpec) -> Iterator[Strategy]:
    placement = x.placements[operation.axis]
    if partial_sum(placement):
        rest = (Replicate(),) * (len(operation.inputs) - 1)
        yield Strategy(placement, (placement, *rest))


def _index_select(operation: Operation) -> Iterator[Strategy]:
    x = operation.inputs[0]
    chosen = operation.argument(1, "dim") % max(x.ndim, 1)
    for dim in range(x.ndim):
        if dim == chosen:
            yield Strategy(Shard(dim), (Replicate(), Shard(0)))
        else:
            yield Strategy(Shard(dim), (Shard(dim), Replicate()))
    yield from _pass_first(operation, x)


def _scatter(operation: Operation) -> Iterator[Strategy]:
    yield from _other_dims(operation, len(operation.inputs) - 1)


def _index(operation: Operation) -> Iterator[Strategy]:
    """Yield cuts of the axes that are not indexed, and of the indices if they are adjacent."""
    x, entries = operation.inputs[0], list(operation.args[1])
    indexed = [d for d, entry in enumerate(entries) if entry is not None]
    indices = operation.inputs[1:]
    if any(str(spec.tensor_meta.dtype) == "torch.bool" for spec in indices):
        return
    shape_ndim = max(spec.ndim for spec in indices)
    first = indexed[0] if indexed == list(range(indexed[0], indexed[-1] + 1)) else 0
    for dim in range(x.ndim):
        if dim not in indexed:
            before = sum(d < dim for d in indexed)
            new = dim - before + (shape_ndim if dim > first or first == 0 else 0)
            replicated = (Replicate(),) * len(indices)
            yield Strategy(Shard(new), (Shard(dim), *replicated))
    if all(spec.shape == indices[0].shape for spec in indices):
        for dim in range(shape_ndim):
            cuts = (Shard(dim),) * len(indices)
            yield Strategy(Shard(first + dim), (Replicate(), *cuts))
    yield from _pass_first(operation, x)


def _placed(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of the gradient of a basic index: of the axes that it takes whole."""
    for axis, (old, new) in enumerate(find_whole_axes(*operation.args[1:3])):
        del axis
        yield Strategy(Shard(old), (Shard(new),))
    yield from pass_partial(operation)


def find_whole_axes(shape: tuple[int, ...], index: Any) -> list[tuple[int, int]]:
    """Return the pairs (axis of the whole, axis of the part) that a basic index leaves alone."""
    entries = list(index) if isinstance(index, tuple) else [index]
    consumed = sum(e is not None and e is not Ellipsis for e in entries)
    if Ellipsis not in [e for e in entries if e is Ellipsis]:
        entries.append(Ellipsis)
    pairs, old, new = [], 0, 0
    for entry in entries:
        if entry is Ellipsis:
            for _ in range(len(shape) - consumed):
                pairs.append((old, new))
                old, new = old + 1, new + 1
        elif entry is None:
            new += 1
        elif isinstance(entry, slice):
            if entry.indices(shape[old]) == (0, shape[old], 1):
                pairs.append((old, new))
            old, new = old + 1, new + 1
        else:
            old += 1
    return pairs


def _one_hot(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of the classes, if their number does not depend on their values."""
    if operation.argument(1, "num_classes", -1) > 0:
        for dim in range(operation.inputs[0].ndim):
            yield Strategy(Shard(dim), (Shard(dim),))


def _new_like(operation: Operation) -> Iterator[Strategy]:
    """Yield the template's cut for a new tensor of its shape."""
    spec = operation.inputs[0]
    placement: Placement = spec.placements[operation.axis]
    if tuple(operation.argument(1, "size")) == tuple(spec.shape) and isinstance(placement, Shard):
        yield Strategy(placement, (placement,))


RULES: dict[str, Rule] = {
    "embedding": Rule(_embedding, follows=False), "gather": Rule(_gather),
    "embedding_dense_backward": Rule(_embedding_backward, follows=False),
    "index_select": Rule(_index_select), "index": Rule(_index),
    **{name: Rule(_scatter) for name in ("scatter", "scatter_add", "scatter_", "scatter_add_")},
    "_placed": Rule(_placed), "one_hot": Rule(_one_hot),
    **{f"new_{name}": Rule(_new_like, accepts_empty=True)
       for name in ("empty", "zeros", "ones", "full")},
}
