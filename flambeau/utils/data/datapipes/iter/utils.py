"""IterableWrapper: any iterable as a pipe."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from .....native.foundation.user_frames import warn
from ..datapipe import IterDataPipe, check_length

__all__ = ["IterableWrapperIterDataPipe"]

_T = TypeVar("_T")


class IterableWrapperIterDataPipe(IterDataPipe[_T]):
    """Pipe of an iterable's elements, copied deeply before each iteration unless `deepcopy=False`.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper(range(3)))
    [0, 1, 2]
    """

    def __init__(self, iterable: Iterable[_T], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[_T]:
        source: Any = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(self.iterable)
            except TypeError:
                warn(
                    "The input iterable can not be deepcopied, please be aware of in-place "
                    "modification would affect source data."
                )
        yield from source

    def __len__(self) -> int:
        return check_length(self, self.iterable)
