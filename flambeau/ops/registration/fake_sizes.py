"""Sizes that depend on values, which the fake kernels of operators ask their context for.

A check runs a fake kernel twice, with other numbers: the sizes that differ are those that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...native.foundation.user_frames import warn
from ...tensor.symbolic_length import SymInt

__all__ = ["CONTEXTS", "FakeImplCtx", "dynamic_sizes"]

_OFFSETS = (7, 11)  # of the sizes of both runs from their lower bounds


class FakeImplCtx:
    """What `torch.library.get_ctx` returns in run 0 or 1 of a check of a fake kernel."""

    def __init__(self, run: int) -> None:
        self._run = run

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Return a size between `min` and `max` that stands for any. ValueError for bounds that no
        size has.

        >>> from flambeau.ops.registration.fake_sizes import FakeImplCtx
        >>> FakeImplCtx(0).new_dynamic_size(min=1), FakeImplCtx(1).new_dynamic_size(max=3)
        (8, 2)
        """
        if isinstance(min, SymInt) or isinstance(max, SymInt):
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, max={max}): expected min and max to be "
                "statically known ints but got SymInt. This is not supported.")
        if min < 0:
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, ...): expected min to be greater than or equal "
                "to 0: this API can only create non-negative sizes.")
        size = min + _OFFSETS[self._run]
        if max is None or size <= max:
            return size
        return max - self._run if max > min else max

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> int:
        """Deprecated name of `new_dynamic_size`."""
        warn("`create_unbacked_symint` is deprecated, please use `new_dynamic_size` instead",
             FutureWarning)
        return self.new_dynamic_size(min=min, max=max)


CONTEXTS: list[FakeImplCtx] = []


@contextmanager
def dynamic_sizes(run: int) -> Iterator[None]:
    """Context in which fake kernels have sizes that depend on values: those of run 0 or 1."""
    CONTEXTS.append(FakeImplCtx(run))
    try:
        yield
    finally:
        CONTEXTS.pop()
