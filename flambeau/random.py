"""torch.random: the default generator's seed and state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .ops.creation.random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .tensor.random.generator import Generator, default_generator

__all__ = [
    "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state", "thread_safe_generator",
]


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cuda",
) -> Iterator[None]:
    """A context that leaves the default generator as it found it.

    >>> with torch.random.fork_rng():
    ...     x = torch.rand(3)
    >>> torch.equal(torch.rand(3), x)  # the same numbers once more
    True
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def thread_safe_generator() -> Generator | None:
    """Return the generator of a DataLoader's worker thread; None in processes, as workers are.

    >>> torch.randint(0, 10, (5,), generator=torch.random.thread_safe_generator()).shape
    torch.Size([5])
    """
    return None
