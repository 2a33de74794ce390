"""Graphs of datapipes: which pipes a pipe reads, found by pickling it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Collection
from typing import Any

from ...native.foundation.user_frames import warn
from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .datapipes.utils.common import dill_available, import_dill

__all__ = ["traverse", "traverse_dps"]

DataPipe = IterDataPipe[Any] | MapDataPipe[Any]
DataPipeGraph = dict[int, tuple[Any, Any]]  # by id: the pipe and the graph of those that it reads

_CLASSES: tuple[Any, Any] = (IterDataPipe, MapDataPipe)


def _stub_unpickler() -> str:
    return "STUB"


def _find_connections(state: Any) -> Any:
    """Return the pipes and collections in a pipe's state, which may hold pipes."""
    classes = (*_CLASSES, Collection)
    if isinstance(state, dict):
        return {name: value for name, value in state.items() if isinstance(value, classes)}
    if isinstance(state, (tuple, list)):
        return [value for value in state if isinstance(value, classes)]
    return state if isinstance(state, classes) else None


def _list_connected_datapipes(pipe: Any, only_datapipe: bool, cache: set[int]) -> list[Any]:
    """Return the pipes that pickle reaches from this one, except those in the cache."""
    connected: list[Any] = []

    def reduce(reached: Any) -> Any:
        if reached is pipe or id(reached) in cache:
            raise NotImplementedError  # as pickle would
        connected.append(reached)
        cache.add(id(reached))
        return _stub_unpickler, ()

    try:
        for cls in _CLASSES:
            cls.set_reduce_ex_hook(reduce)
            if only_datapipe:
                cls.set_getstate_hook(_find_connections)
        try:
            pickle.Pickler(io.BytesIO()).dump(pipe)
        except (pickle.PickleError, AttributeError, TypeError):
            if not dill_available():
                raise
            import_dill().Pickler(io.BytesIO()).dump(pipe)
    finally:
        for cls in _CLASSES:
            cls.set_reduce_ex_hook(None)
            if only_datapipe:
                cls.set_getstate_hook(None)
    return connected


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """Return the graph of pipes that end in this one: by id, the pipe and the graph before it.

    Attributes that are pipes or collections of them are followed. Raises RuntimeError for anything
    but a pipe.

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(3))
    >>> (pipe, sources), = torch.utils.data.graph.traverse_dps(numbers.batch(2)).values()
    >>> pipe, [source for source, _ in sources.values()]
    (BatcherIterDataPipe, [IterableWrapperIterDataPipe])
    """
    return _traverse(datapipe, True, set())


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> DataPipeGraph:
    """Return the graph as `traverse_dps` does, through all attributes. Deprecated."""
    message = (
        "`traverse` function is deprecated and will be removed after 1.13. "
        "Please use `traverse_dps` instead."
    )
    if not only_datapipe:
        message += " And, the behavior will be changed to the equivalent of `only_datapipe=True`."
    warn(message, FutureWarning)
    return _traverse(datapipe, bool(only_datapipe), set())


def _traverse(pipe: Any, only_datapipe: bool, path: set[int]) -> DataPipeGraph:
    if not isinstance(pipe, _CLASSES):
        raise RuntimeError(
            f"Expected `IterDataPipe` or `MapDataPipe`, but {type(pipe)} is found"
        )
    if id(pipe) in path:
        return {}
    path.add(id(pipe))
    sources: DataPipeGraph = {}
    for source in _list_connected_datapipes(pipe, only_datapipe, path.copy()):
        sources.update(_traverse(source, only_datapipe, path.copy()))
    return {id(pipe): (pipe, sources)}
