"""rearrange: split, permute and merge axes by a pattern such as "b (h k) c -> b h c k" (einops)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from .. import ops
from ..tensor.tensor import Tensor

_TOKEN = re.compile(r"\s*(\.\.\.|[()]|\w+)")
_ELLIPSIS = "..."
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
    Raises ValueError for a malformed pattern, DimensionBindError for lengths that do not fit.

    Rogozhnikov, "Einops: Clear and Reliable Tensor Manipulations with Einstein-like Notation",
    2022.

    >>> torch.func.rearrange(torch.zeros(2, 6, 5), "b (h w) c -> b c h w", h=2).shape
    torch.Size([2, 5, 2, 3])
    """
    x = tensor if isinstance(tensor, Tensor) else ops.stack(tensor)
    left, right = _parse(pattern)
    _check(pattern, left, right, axes_lengths)
    left, right = _name_ellipsis(left, right, x.dim())
    lengths = _bind(left, x.shape, axes_lengths)
    names = [name for axes in left for name in axes]
    order = [names.index(name) for axes in right for name in axes]
    x = x.reshape([lengths[name] for name in names]).permute(order)
    return x.reshape([math.prod(lengths[name] for name in axes) for axes in right])


def _parse(pattern: str) -> tuple[list[Axes], list[Axes]]:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = map(_parse_side, sides)
    return left, right


def _parse_side(text: str) -> list[Axes]:
    if "." in text.replace(_ELLIPSIS, ""):
        raise ValueError("Expression may contain dots only inside ellipsis (...)")
    if text.count(_ELLIPSIS) > 1:
        raise ValueError("Expression may contain dots only inside ellipsis (...); only one "
                         "ellipsis for tensor ")
    unknown = re.search(r"[^\w\s().]", text)
    if unknown:
        raise ValueError(f"Unknown character '{unknown[0]}'")
    axes: list[Axes] = []
    group: list[str] | None = None
    seen: set[str] = set()
    for token in _TOKEN.findall(text):
        if token == "(":
            if group is not None:
                raise ValueError(
                    "Axis composition is one-level (brackets inside brackets not allowed)")
            group = []
        elif token == ")":
            if group is None:
                raise ValueError(f"Imbalanced parentheses in expression: '{text}'")
            axes.append(tuple(group))
            group = None
        else:
            names = _check_name(token, seen)
            if group is None:
                axes.append(names)
            else:
                group += names
    if group is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{text}'")
    return axes


def _check_name(token: str, seen: set[str]) -> Axes:
    """Return the names that a token adds to its axis: none for 1."""
    if token.isdecimal():
        if token != "1":
            raise ValueError("rearrange only supports unnamed axes of size 1")
        return ()
    if token != _ELLIPSIS and (not token.isidentifier() or token[0] == "_" or token[-1] == "_"):
        raise ValueError(f"Invalid axis identifier: {token}\n"
                         "axis name should should not start or end with underscore")
    if token in seen:
        raise ValueError(f"Indexing expression contains duplicate dimension '{token}'")
    seen.add(token)
    return (token,)


def _check(
    pattern: str, left: list[Axes], right: list[Axes], axes_lengths: dict[str, int]
) -> None:
    """Raise ValueError unless both sides name the same axes."""
    names, others = ({name for axes in side for name in axes} for side in (left, right))
    if _ELLIPSIS in others - names:
        raise ValueError("Ellipsis found in right side, but not left side of a pattern "
                         f"{pattern}")
    if re.search(r"\([^)]*\.\.\.", pattern.partition("->")[0]):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    if names != others:
        raise ValueError("Identifiers only on one side of rearrange expression (should be on "
                         f"both): {names ^ others}")
    unknown = axes_lengths.keys() - names
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")


def _name_ellipsis(
    left: list[Axes], right: list[Axes], ndim: int
) -> tuple[list[Axes], list[Axes]]:
    """Replace the ellipsis by as many names as the tensor has further axes."""
    has_ellipsis = (_ELLIPSIS,) in left
    count = ndim - len(left) + has_ellipsis
    if count < 0 or (count and not has_ellipsis):
        raise ValueError(f"Number of dimensions in pattern ({len(left)}) must be equal to the "
                         f"number of dimensions in the tensor ({ndim})")
    names = tuple(f"...{i}" for i in range(count))

    def expand(side: list[Axes]) -> list[Axes]:
        result: list[Axes] = []
        for axes in side:
            if axes == (_ELLIPSIS,):
                result += [(name,) for name in names]
            else:
                result.append(tuple(
                    part for name in axes for part in (names if name == _ELLIPSIS else (name,))))
        return result

    return expand(left), expand(right)


def _bind(
    left: list[Axes], shape: Sequence[int], axes_lengths: dict[str, int]
) -> dict[str, int]:
    """Return the length of each named axis."""
    lengths = dict(axes_lengths)
    for axes, length in zip(left, shape, strict=True):
        unknown = [name for name in axes if name not in lengths]
        known = math.prod(lengths[name] for name in axes if name in lengths)
        if len(unknown) > 1:
            raise DimensionBindError("cannot infer the sizes of two dimensions at once "
                                     f"{unknown[0]} and {unknown[1]}")
        if unknown:
            if known == 0 or length % known:
                pack = tuple(lengths.get(name, "?") for name in axes)
                raise DimensionBindError("inferred dimension does not evenly fit into larger "
                                         f"dimension: {length} vs {pack}")
            lengths[unknown[0]] = length // known
        elif known != length:
            raise DimensionBindError(f"Dimension sizes to do not match ({length} != {known}) when "
                                     f"matching dimension pack ({', '.join(axes)})")
    return lengths
