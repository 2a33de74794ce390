"""torch.Size: a tensor's shape as a tuple."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex

from . import symbolic_length


def _check_length(position: int, n: Any) -> int:
    """Return a length as an int or SymInt; raise TypeError if it is not an integer."""
    if isinstance(n, (int, symbolic_length.SymInt)):
        return n  # type: ignore[return-value]
    try:
        return n.__index__()
    except (AttributeError, TypeError):
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {position} is '{type(n).__name__}')"
        ) from None


class Size(tuple):
    """A tensor's shape: a tuple of ints that stays a Size under slicing, `+` and `*`.

    >>> Size([2, 3]).numel()
    6
    """

    def __new__(cls, lengths: Iterable[int] = ()) -> Size:
        result = tuple.__new__(cls, lengths)
        for n in result:
            if n.__class__ is not int:
                return tuple.__new__(cls, [_check_length(i, m) for i, m in enumerate(result)])
        return result

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)

    def __getitem__(self, index: Any) -> Any:
        result = tuple.__getitem__(self, index)
        return tuple.__new__(Size, result) if index.__class__ is slice else result

    def __add__(self, other: tuple) -> Size:
        if not isinstance(other, tuple):
            if hasattr(type(other), "__radd__"):
                return NotImplemented
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to torch.Size"
            )
        return tuple.__new__(Size, tuple.__add__(self, other))

    def __radd__(self, other: tuple) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return tuple.__new__(Size, tuple.__add__(tuple(other), self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    def __rmul__(self, times: SupportsIndex) -> Size:
        return self * times

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        return math.prod(self)
