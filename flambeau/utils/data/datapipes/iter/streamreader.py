"""StreamReader: the bytes of streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[Any]):
    """Yields label and bytes of pairs of label and stream (functional name: ``read_from_stream``).

    `chunk` is the most bytes in one sample; without it a stream is one sample.

    >>> import io
    >>> pairs = torch.utils.data.datapipes.iter.IterableWrapper([("a", io.StringIO("xyz"))])
    >>> list(pairs.read_from_stream(chunk=2))
    [('a', 'xy'), ('a', 'z')]
    """

    def __init__(self, datapipe: IterDataPipe[Any], chunk: int | None = None) -> None:
        self.datapipe = datapipe
        self.chunk = chunk

    def __iter__(self) -> Iterator[Any]:
        for label, stream in self.datapipe:
            while data := stream.read(self.chunk):
                yield label, data
            stream.close()
