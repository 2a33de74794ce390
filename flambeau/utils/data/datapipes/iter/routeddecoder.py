"""RoutedDecoder: the contents of files, decoded by their extensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe, check_length
from ..utils.common import warn_of_deprecated
from ..utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler

__all__ = ["RoutedDecoderIterDataPipe"]


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe[Any]):
    """Decodes pairs of path and stream with the first handler that returns something.

    (functional name: ``routed_decode``) Without handlers those of texts, numbers and images are
    used. Deprecated.
    """

    def __init__(
        self, datapipe: Iterable[Any], *handlers: Callable[..., Any],
        key_fn: Callable[[str], str] = extension_extract_fn,
    ) -> None:
        self.datapipe = datapipe
        default = (basichandlers, imagehandler("torch"))
        self.decoder = Decoder(*(handlers or default), key_fn=key_fn)
        warn_of_deprecated(type(self).__name__, "routed_decode", since="1.12", removed="1.13")

    def add_handler(self, *handler: Callable[..., Any]) -> None:
        """Put handlers before the existing ones."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            path = data[0]
            yield path, self.decoder(data)[path]

    def __len__(self) -> int:
        return check_length(self, self.datapipe)
