"""Bucket: gradients that are reduced together in one block of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor import Tensor
from ...tensor.tensor import view_of, wrap
from ..work import Work

FIRST_BUCKET_BYTES = 1 << 20  # small, so that the first reduction starts early
DEFAULT_BUCKET_BYTES = 25 << 20


class Bucket:
    """Parameters whose gradients are contiguous in `buffer`.

    `views` are the gradients' views of it. `missing` counts the gradients of the current backward
    that have not arrived.
    """

    def __init__(self, index: int, parameters: Sequence[Tensor]) -> None:
        self.index, self.parameters = index, list(parameters)
        sizes = [p.numel() for p in self.parameters]
        self.buffer = wrap(np.zeros(sum(sizes), parameters[0]._array.dtype))
        ends = np.cumsum([0, *sizes])
        self.views = [
            view_of(self.buffer, self.buffer._array[start:end].reshape(p.shape))
            for p, start, end in zip(self.parameters, ends, ends[1:], strict=False)
        ]
        self.missing = len(self.parameters)
        self.work: Work | None = None
        self.future: Any = None  # of a communication hook
        self.transfer: Any = None  # the compiler's record of the exchange


def assign_buckets(
    parameters: Sequence[Tensor], cap_bytes: int, first_bytes: int = FIRST_BUCKET_BYTES
) -> list[Bucket]:
    """Group parameters into single-dtype buckets, in the order backward likely finishes them.

    That is the reverse of the parameters' order. A bucket is closed when it reaches `cap_bytes`,
    the first one when it reaches `first_bytes`.
    """
    groups: list[list[Tensor]] = []
    filling: dict[np.dtype, tuple[list[Tensor], int]] = {}
    for parameter in reversed(parameters):
        dtype = parameter._array.dtype
        members, size = filling.get(dtype, ([], 0))
        members.append(parameter)
        size += parameter._array.nbytes
        if size >= (cap_bytes if groups else min(first_bytes, cap_bytes)):
            groups.append(members)
            filling.pop(dtype, None)
        else:
            filling[dtype] = members, size
    groups += [members for members, _ in filling.values()]
    return [Bucket(index, members) for index, members in enumerate(groups)]


class GradBucket:
    """A bucket as communication hooks see it."""

    def __init__(self, bucket: Bucket, is_last: bool) -> None:
        self._bucket, self._is_last = bucket, is_last

    def index(self) -> int:
        """Return the bucket's position in the order of reduction."""
        return self._bucket.index

    def buffer(self) -> Tensor:
        """Return the flat, concatenated gradients."""
        return self._bucket.buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients as views of `buffer`."""
        return list(self._bucket.views)

    def parameters(self) -> list[Tensor]:
        """Return the parameters, in the order of `gradients`."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Return whether this is the last bucket of a backward."""
        return self._is_last

    def set_buffer(self, buffer: Tensor) -> None:
        """Overwrite the gradients."""
        np.copyto(self._bucket.buffer._array, buffer._array.reshape(-1), casting="unsafe")
