"""FileLister: the paths of files in folders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import get_file_pathnames_from_root
from .utils import IterableWrapperIterDataPipe

__all__ = ["FileListerIterDataPipe"]


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe[str]):
    """Yields the paths of files in one or more folders whose names match `masks`.

    (functional name: ``list_files``)

    Paths are sorted unless `non_deterministic`. `length` is the result of `len()`.
    """

    def __init__(
        self, root: Any = ".", masks: str | list[str] = "", *, recursive: bool = False,
        abspath: bool = False, non_deterministic: bool = False, length: int = -1,
    ) -> None:
        roots = [root] if isinstance(root, str) else root
        self.datapipe: IterDataPipe[str] = (
            roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(roots)
        )
        self.masks = masks
        self.recursive, self.abspath = recursive, abspath
        self.non_deterministic = non_deterministic
        self.length = length

    def __iter__(self) -> Iterator[str]:
        for path in self.datapipe:
            yield from get_file_pathnames_from_root(
                path, self.masks, self.recursive, self.abspath, self.non_deterministic
            )

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length
