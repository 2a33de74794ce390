"""LinearCrossEntropyOptions: how linear_cross_entropy trades memory for time and precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...tensor.dtypes import bfloat16, dtype, float16, float32, float64

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")


def _is_chunking_method(method: str) -> bool:
    """Whether `method` is `aspect_ratio` or `aspect_ratio:k` with k a positive integer."""
    name, colon, factor = method.partition(":")
    if not colon:
        factor = "1"
    return name == "aspect_ratio" and factor.isdigit() and int(factor) > 0


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Options of linear_cross_entropy; ValueError for an unsupported setting.

    `batch_chunk_size` sets how many rows of logits are held at once; `chunking_method` picks it.
    `acc_policy` and `acc_dtype` set the precision of sums, `allow_retain_graph` allows a second
    backward.

    >>> options = nn.LinearCrossEntropyOptions(batch_chunk_size=128)
    >>> options.batch_chunk_size
    128
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        method = self.chunking_method
        if method is not None and method != "auto" and not _is_chunking_method(method):
            raise ValueError(f"invalid chunking_method: {method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, float16, bfloat16, float32, float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, "
                f"torch.float64}}, got {self.acc_dtype!r}. Pass acc_dtype=None to let the op "
                "pick automatically."
            )
