"""SequenceWrapper: a sequence or mapping as a pipe."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from .....native.foundation.user_frames import warn
from ..datapipe import MapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]

_T = TypeVar("_T")


class SequenceWrapperMapDataPipe(MapDataPipe[_T]):
    """Pipe of a sequence's or mapping's elements, copied deeply at first unless `deepcopy=False`.

    >>> torch.utils.data.datapipes.map.SequenceWrapper({"a": 1})["a"]
    1
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warn(
                    "The input sequence can not be deepcopied, please be aware of in-place "
                    "modification would affect source data"
                )

    def __getitem__(self, index: Any) -> _T:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
