"""Size: the tuple of a tensor's lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex


class Size(tuple):
    """A tensor's shape: a tuple of ints that stays a Size under slicing, `+` and `*`.

    >>> Size([2, 3]).numel()
    6
    """

    def __new__(cls, lengths: Iterable[int] = ()) -> Size:
        made = tuple.__new__(cls, lengths)
        for i, n in enumerate(made):
            if n.__class__ is not int and not hasattr(n, "__index__"):
                raise TypeError(
                    "torch.Size() takes an iterable of 'int' "
                    f"(item {i} is '{type(n).__name__}')"
                )
        return made

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return tuple.__new__(Size, found) if index.__class__ is slice else found

    def __add__(self, other: tuple) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return tuple.__new__(Size, tuple.__add__(self, other))

    def __radd__(self, other: tuple) -> Size:
        return tuple.__new__(Size, tuple.__add__(tuple(other), self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    def __rmul__(self, times: SupportsIndex) -> Size:
        return self * times

    def numel(self) -> int:
        """How many elements a tensor of this shape has."""
        return math.prod(self)
