"""rearrange: split, permute and merge axes by a pattern such as "b (h k) c -> b h c k" (einops)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import ops
from ..tensor.tensor import Tensor
from .axis_pattern import _ellipsis, parse_pattern, validate_rearrange_expressions

Axes = tuple[str, ...]  # one axis of the tensor: the names that it is composed of


class DimensionBindError(Exception):
    """The lengths of axes contradict each other or the tensor."""


def rearrange(
    tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int
) -> Tensor:
    """Rearrange the axes of a tensor by `pattern`; no element is repeated or dropped.

    tensor: a tensor, or a list of tensors of one shape, which are stacked first.
    pattern: names of axes before and after "->". Parentheses compose axes, "..." stands for
    unnamed axes, 1 and () for a new axis of length 1.
    axes_lengths: lengths of composed axes; one of each group follows from the tensor.
    Raises ValueError for a malformed pattern, DimensionBindError for lengths that do not fit, and
    TypeError for lengths that are no ints.

    Rogozhnikov, "Einops: Clear and Reliable Tensor Manipulations with Einstein-like Notation",
    2022.

    >>> torch.func.rearrange(torch.zeros(2, 6, 5), "b (h w) c -> b c h w", h=2).shape
    torch.Size([2, 5, 2, 3])
    """
    x = tensor if isinstance(tensor, Tensor) else ops.stack(tensor)
    left, right = _parse(pattern, axes_lengths)
    left, right = _name_ellipsis(left, right, x.dim())
    lengths = _bind(left, x.shape, axes_lengths)
    names = [name for axes in left for name in axes]
    order = [names.index(name) for axes in right for name in axes]
    x = x.reshape([lengths[name] for name in names]).permute(order)
    return x.reshape([math.prod(lengths[name] for name in axes) for axes in right])


def _parse(pattern: str, axes_lengths: dict[str, int]) -> tuple[list[Axes], list[Axes]]:
    """Return the axes of both sides. Raises ValueError unless they name the same ones."""
    sides = parse_pattern(pattern, axes_lengths)
    validate_rearrange_expressions(*sides, axes_lengths)
    left, right = ([tuple(group) for group in side.composition] for side in sides)
    return left, right


def _name_ellipsis(
    left: list[Axes], right: list[Axes], ndim: int
) -> tuple[list[Axes], list[Axes]]:
    """Replace the ellipsis by as many names as the tensor has further axes."""
    has_ellipsis = (_ellipsis,) in left
    count = ndim - len(left) + has_ellipsis
    if count < 0 or (count and not has_ellipsis):
        raise ValueError(f"Number of dimensions in pattern ({len(left)}) must be equal to the "
                         f"number of dimensions in the tensor ({ndim})")
    names = tuple(f"...{i}" for i in range(count))

    def expand(side: list[Axes]) -> list[Axes]:
        result: list[Axes] = []
        for axes in side:
            if axes == (_ellipsis,):
                result += [(name,) for name in names]
            else:
                result.append(tuple(
                    axis for name in axes for axis in (names if name == _ellipsis else (name,))))
        return result

    return expand(left), expand(right)


def _bind(
    left: list[Axes], shape: Sequence[int], axes_lengths: dict[str, int]
) -> dict[str, int]:
    """Return the length of each named axis."""
    lengths = dict(axes_lengths)
    for axes, length in zip(left, shape, strict=True):
        unknown = [name for name in axes if name not in lengths]
        known_length = math.prod(lengths[name] for name in axes if name in lengths)
        if len(unknown) > 1:
            raise DimensionBindError("cannot infer the sizes of two dimensions at once "
                                     f"{unknown[0]} and {unknown[1]}")
        if unknown:
            if known_length == 0 or length % known_length:
                pack = tuple(lengths.get(name, "?") for name in axes)
                raise DimensionBindError("inferred dimension does not evenly fit into larger "
                                         f"dimension: {length} vs {pack}")
            lengths[unknown[0]] = length // known_length
        elif known_length != length:
            raise DimensionBindError(
                f"Dimension sizes to do not match ({length} != {known_length}) when matching "
                f"dimension pack ({', '.join(axes)})")
    return lengths
