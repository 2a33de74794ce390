"""Views and movements: each axis of the result comes from one of the input, or is new.

Axes that are taken apart or joined may be cut if every process's part stays one block; joining an
axis that is not the first gives a strided shard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ..placement_types import Placement, Shard, _StridedShard, sharded_dim
from ..propagation import Operation, Rule, Strategy, partial_sum
from .reductions import find_dims

# By output axis: the input axis that it is, or None for a new one.
Axes = Sequence[int | None]


def _create_mapping(find_axes: Callable[[Operation], Axes]) -> Rule:
    """Return the rule of an operator whose result's axes are axes of the input."""
    def strategies(operation: Operation) -> Iterator[Strategy]:
        for new, old in enumerate(find_axes(operation)):
            if old is not None:
                yield Strategy(Shard(new), (Shard(old),))
        yield from pass_partial(operation)

    return Rule(strategies, accepts_empty=True)


def pass_partial(operation: Operation) -> Iterator[Strategy]:
    """Yield the strategies that keep sums, which every movement of elements does."""
    placements = [spec.placements[operation.axis] for spec in operation.inputs]
    for placement in dict.fromkeys(placements):
        if partial_sum(placement):
            yield Strategy(placement, (placement,) * len(placements))


def _transpose(operation: Operation) -> Axes:
    ndim = operation.inputs[0].ndim
    order = list(range(ndim))
    if ndim < 2 and operation.name == "t":
        return order
    a, b = (0, 1) if operation.name == "t" else (d % ndim for d in operation.args[1:3])
    order[a], order[b] = order[b], order[a]
    return order


def _permute(operation: Operation) -> Axes:
    return find_dims(operation.argument(1, "dims"), operation.inputs[0].ndim)


def _unsqueeze(operation: Operation) -> Axes:
    ndim = operation.inputs[0].ndim
    axes: list[int | None] = list(range(ndim))
    axes.insert(operation.argument(1, "dim") % (ndim + 1), None)
    return axes


def _squeeze(operation: Operation) -> Axes:
    spec, dims = operation.inputs[0], operation.argument(1, "dim")
    chosen = range(spec.ndim) if dims is None else \
        [] if dims == [] else find_dims(dims, spec.ndim)
    return [d for d in range(spec.ndim) if not (d in chosen and spec.shape[d] == 1)]


def _expand(operation: Operation) -> Axes:
    spec, sizes = operation.inputs[0], operation.argument(1, "size")
    new = len(sizes) - spec.ndim
    return [None if d < new or (spec.shape[d - new] == 1 and sizes[d] != 1) else d - new
            for d in range(len(sizes))]


def _repeat(operation: Operation) -> Axes:
    spec, times = operation.inputs[0], operation.argument(1, "repeats")
    new = len(times) - spec.ndim
    return [d - new if d >= new and times[d] == 1 else None for d in range(len(times))]


def _select(operation: Operation) -> Axes:
    ndim = operation.inputs[0].ndim
    chosen = operation.argument(1, "dim", 0) % ndim
    return [d for d in range(ndim) if d != chosen]


def _without_dim(position: int, default: int | None = 0) -> Callable[[Operation], Axes]:
    """Return the axes of an operator that works along those at an argument's position."""
    def find_axes(operation: Operation) -> Axes:
        ndim = operation.inputs[0].ndim
        worked = find_dims(operation.argument(position, "dim", default), ndim)
        return [None if d in worked else d for d in range(ndim)]

    return find_axes


def _slice(operation: Operation) -> Axes:
    spec = operation.inputs[0]
    dim = operation.argument(1, "dim", 0) % spec.ndim
    start, end = operation.argument(2, "start") or 0, operation.argument(3, "end")
    size, step = spec.shape[dim], operation.argument(4, "step", 1)
    is_whole = start in (0, -size) and step == 1 and (end is None or end >= size)
    return [None if d == dim and not is_whole else d for d in range(spec.ndim)]


def _roll(operation: Operation) -> Axes:
    if not operation.argument(2, "dims"):  # rolls the flattened tensor
        return []
    return _without_dim(2)(operation)


def _diagonal(operation: Operation) -> Axes:
    ndim = operation.inputs[0].ndim
    a, b = (operation.argument(position, name, position - 2) % ndim for position,
            name in ((2, "dim1"), (3, "dim2")))
    return [*(d for d in range(ndim) if d not in (a, b)), None]


# ------------------------------------------------------------------------------ other shapes


def match_groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[range, range]]:
    """Return the runs of axes with equal products, from front to back."""
    groups, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        first_i, first_j = i, j
        left = before[i] if i < len(before) else 1
        right = after[j] if j < len(after) else 1
        i, j = min(i + 1, len(before)), min(j + 1, len(after))
        while left != right and (i < len(before) or j < len(after)):
            if left < right and i < len(before) or j == len(after):
                left, i = left * before[i], i + 1
            else:
                right, j = right * after[j], j + 1
        groups.append((range(first_i, i), range(first_j, j)))
    return groups


def find_size(operation: Operation) -> list[int]:
    """Return the shape that a view asks for, with -1 resolved."""
    spec, size = operation.inputs[0], list(operation.argument(1, "size"))
    if -1 in size:
        known = math.prod(n for n in size if n != -1)
        size[size.index(-1)] = math.prod(spec.shape) // known if known else 0
    return size


def _view(operation: Operation) -> Iterator[Strategy]:
    spec, size = operation.inputs[0], find_size(operation)
    yield from pass_partial(operation)
    if 0 in size:
        return
    for olds, news in match_groups(spec.shape, size):
        yield from _view_group(operation, list(olds), list(news), spec.shape, size)


def _view_group(
    operation: Operation, olds: list[int], news: list[int], before: Sequence[int],
    after: Sequence[int],
) -> Iterator[Strategy]:
    """Yield the cuts of the input's axes `olds` that become the result's axes `news`."""
    spec = operation.inputs[0]
    for old in olds:
        factor = math.prod(before[d] for d in olds if d < old)  # blocks around the cut axis
        placement = spec.placements[operation.axis]
        if isinstance(placement, _StridedShard) and placement.dim == old:
            factor *= placement.split_factor
        source: Placement = placement if sharded_dim(placement) == old else Shard(old)
        target = _find_target(operation, factor, old, news, after)
        if target is not None and before[old] != 1:
            yield Strategy(target, (source,))


def _find_target(
    operation: Operation, factor: int, old: int, news: list[int], after: Sequence[int]
) -> Placement | None:
    """Return the cut of the axes `news` at the place where `factor` blocks lie around it."""
    spec = operation.inputs[0]
    is_even = operation.divides(spec.shape[old], old, spec)
    outside = 1
    for new in (d for d in news if after[d] != 1):
        if outside == factor and (spec.shape[old] == after[new] or (
                is_even and operation.divides(after[new], old, spec))):
            return Shard(new)
        blocks = factor // outside
        if is_even and factor % outside == 0 and outside * after[new] > factor \
                and after[new] % blocks == 0 \
                and operation.divides(after[new] // blocks, old, spec):
            return _StridedShard(new, split_factor=blocks)
        outside *= after[new]
    return None


# ------------------------------------------------------------------------------ several tensors


def _cat(operation: Operation) -> Iterator[Strategy]:
    specs = operation.inputs
    dim = operation.argument(1, "dim", 0)
    first = specs[0]
    for at in range(first.ndim):
        if at != dim % first.ndim and all(spec.ndim == first.ndim for spec in specs):
            yield Strategy(Shard(at), (Shard(at),) * len(specs))
    yield from pass_partial(operation)


def _stack(operation: Operation) -> Iterator[Strategy]:
    specs = operation.inputs
    dim = operation.argument(1, "dim", 0) % (specs[0].ndim + 1)
    for at in range(specs[0].ndim):
        yield Strategy(Shard(at + (at >= dim)), (Shard(at),) * len(specs))
    yield from pass_partial(operation)


RULES: dict[str, Rule] = {
    **{name: _create_mapping(_transpose) for name in ("t", "transpose", "swapaxes")},
    "permute": _create_mapping(_permute), "unsqueeze": _create_mapping(_unsqueeze),
    "squeeze": _create_mapping(_squeeze), "squeeze_": _create_mapping(_squeeze),
    "expand": _create_mapping(_expand), "repeat": _create_mapping(_repeat),
    "select": _create_mapping(_select), "slice": _create_mapping(_slice),
    "flip": _create_mapping(_without_dim(1, None)), "roll": _create_mapping(_roll),
    "unbind": _create_mapping(_select),
    "split": _create_mapping(_without_dim(2)), "split_with_sizes": _create_mapping(_without_dim(2)),
    "unfold": _create_mapping(lambda operation: [*_without_dim(1)(operation), None]),
    "diagonal": _create_mapping(_diagonal),
    **dict.fromkeys(("view", "_unsafe_view", "reshape"),
                    Rule(_view, accepts_empty=True, lists_strided=True)),
    "cat": Rule(_cat, accepts_empty=True), "stack": Rule(_stack, accepts_empty=True),
}
