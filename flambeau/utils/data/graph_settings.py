"""Settings of all pipes of a graph: shuffling, seeds, and each worker's part."""

from __future__ import annotations

import inspect
from typing import Any

from ...native.foundation.user_frames import warn
from .datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe
from .graph import DataPipeGraph, traverse_dps
from .sampler import draw_seed

__all__ = [
    "apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """Return the pipes of a graph, each once, from its end."""
    return list(_index_pipes(graph, {}).values())


def _index_pipes(graph: DataPipeGraph, pipes: dict[int, Any]) -> dict[int, Any]:
    for key, (pipe, sources) in graph.items():
        if key not in pipes:
            pipes[key] = pipe
            _index_pipes(sources, pipes)
    return pipes


def _has_methods(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def _is_sharding_datapipe(pipe: Any) -> bool:
    return isinstance(pipe, _ShardingIterDataPipe) or _has_methods(pipe, "apply_sharding")


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int,
    sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
) -> Any:
    """Apply sharding to the pipes that have `apply_sharding`, and return the pipe.

    Raises RuntimeError if a branch of the graph has two of them.
    """
    def apply(graph: DataPipeGraph, first: Any) -> None:
        for pipe, sources in graph.values():
            applied = first
            if _is_sharding_datapipe(pipe):
                if first is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause "
                        f"data loss. Sharding already applied to {first} while trying to apply to "
                        f"{pipe}"
                    )
                takes_group = len(inspect.signature(pipe.apply_sharding).parameters) >= 3
                group = {"sharding_group": sharding_group} if takes_group else {}
                pipe.apply_sharding(num_of_instances, instance_id, **group)
                applied = pipe
            apply(sources, applied)

    apply(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turn all shuffling pipes on or off and return the pipe; None changes nothing.

    Without any, `shuffle=True` appends one, with a warning.
    """
    if shuffle is None:
        return datapipe
    pipes = get_all_graph_pipes(traverse_dps(datapipe))
    shufflers = [pipe for pipe in pipes if _has_methods(pipe, "set_shuffle", "set_seed")]
    if not shufflers and shuffle:
        warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at "
            "the end. Be aware that the default buffer size might not be sufficient for your task."
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe: Any, rng: Any) -> Any:
    """Seed the graph as `apply_random_seed` does. Deprecated."""
    warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. "
        "Please use `apply_random_seed` instead.",
        FutureWarning,
    )
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Give each pipe that has `set_seed` a number drawn from `rng`, and return the pipe."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has_methods(pipe, "set_seed"):
            pipe.set_seed(draw_seed(rng))
    return datapipe
