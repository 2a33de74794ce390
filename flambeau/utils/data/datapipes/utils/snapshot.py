"""Snapshots of a graph of pipes: the samples up to a place are computed again."""

from __future__ import annotations

from typing import Any

from ...graph_settings import apply_random_seed
from .._hook_iterator import _SnapshotState


def _simple_graph_snapshot_restoration(datapipe: Any, n_iterations: int, rng: Any = None) -> None:
    """Forward a pipe, and those before it, by a number of samples; `iter()` goes on from there.

    `rng` seeds the pipes that shuffle. Raises RuntimeError if the pipe was restored already and not
    iterated since, or ends before.
    """
    if datapipe._snapshot_state == _SnapshotState.Restored:
        raise RuntimeError(
            "Snapshot restoration cannot be applied. You can only restore simple snapshot to the "
            "graph if your graph has not been restored."
        )
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    samples = iter(datapipe)
    for _ in range(n_iterations):
        try:
            next(samples)
        except StopIteration as error:
            raise RuntimeError(
                f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number of "
                "samples available."
            ) from error
    datapipe._fast_forward_iterator = samples
    datapipe._snapshot_state = _SnapshotState.Restored
