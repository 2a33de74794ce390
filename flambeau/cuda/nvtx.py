"""torch.cuda.nvtx: marks for NVIDIA's profilers, which need a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        "NVTX functions not installed. Are you sure you have a CUDA build? flambeau runs on the CPU"
    )


mark = range_end = range_pop = range_push = range_start = _refuse


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A region, or a function's calls, which a profiler shows; RuntimeError when it is entered."""
    range_push(msg.format(*args, **kwargs))
    yield
