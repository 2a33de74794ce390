"""Pipes that join several pipes with an index: `concat` and `zip`."""

from __future__ import annotations

from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


def _check_pipes(pipes: tuple[Any, ...]) -> None:
    if not pipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in pipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    if not all(hasattr(type(pipe), "__len__") for pipe in pipes):
        raise TypeError("Expected all inputs to be `Sized`")


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe[Any]):
    """The samples of the first pipe, then those of the next, with one index.

    (functional name: ``concat``)

    >>> SequenceWrapper = torch.utils.data.datapipes.map.SequenceWrapper
    >>> list(SequenceWrapper([1]).concat(SequenceWrapper([2, 3])))
    [1, 2, 3]
    """

    def __init__(self, *datapipes: Any) -> None:
        _check_pipes(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> Any:
        offset = 0
        for pipe in self.datapipes:
            if index - offset < len(pipe):
                return pipe[index - offset]
            offset += len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[tuple[Any, ...]]):
    """Tuples of the samples at one index, as long as the shortest pipe (functional name: ``zip``).

    >>> SequenceWrapper = torch.utils.data.datapipes.map.SequenceWrapper
    >>> list(SequenceWrapper([1, 2]).zip(SequenceWrapper("ab")))
    [(1, 'a'), (2, 'b')]
    """

    def __init__(self, *datapipes: Any) -> None:
        _check_pipes(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        samples = []
        for pipe in self.datapipes:
            try:
                samples.append(pipe[index])
            except IndexError as error:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {pipe}."
                ) from error
        return tuple(samples)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))
