"""The metaclasses of datapipes. That of IterDataPipe hooks iterators and resets of subclasses."""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

from ._hook_iterator import _SnapshotState, hook_iterator


class _DataPipeMeta(ABCMeta):
    """Metaclass of all datapipes."""


class _IterDataPipeMeta(_DataPipeMeta):
    """Metaclass of IterDataPipe."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> Any:
        if "reset" in namespace:
            namespace["reset"] = _reset_unless_restored(namespace["reset"])
        if "__iter__" in namespace:
            hook_iterator(namespace)
        return super().__new__(cls, name, bases, namespace, **kwargs)


def _reset_unless_restored(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def reset(*args: Any, **kwargs: Any) -> None:
        pipe = args[0]
        if pipe._snapshot_state != _SnapshotState.Restored:
            pipe._number_of_samples_yielded = 0
            pipe._fast_forward_iterator = None
            function(*args, **kwargs)
        pipe._snapshot_state = _SnapshotState.Iterating

    return reset
