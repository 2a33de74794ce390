"""Mapper: a function of each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...dataset import measure_length
from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe
from ..utils.common import _check_unpickable_fn

__all__ = ["MapperMapDataPipe", "default_fn"]

_T_co = TypeVar("_T_co", covariant=True)


def default_fn(data: Any) -> Any:
    """Return the sample."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[_T_co]):
    """Calls `fn` on a sample when it is asked for (functional name: ``map``).

    >>> torch.utils.data.datapipes.map.SequenceWrapper([-1, 2]).map(abs)[0]
    1
    """

    def __init__(self, datapipe: Any, fn: Callable[..., Any] = default_fn) -> None:
        self.datapipe = datapipe
        _check_unpickable_fn(fn)
        self.fn = fn

    def __len__(self) -> int:
        return measure_length(self.datapipe)

    def __getitem__(self, index: Any) -> _T_co:
        return self.fn(self.datapipe[index])
