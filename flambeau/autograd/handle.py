"""RemovableHandle: returned when a hook is registered; `remove()` unregisters the hook."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

_ids = itertools.count()


class _Handles:
    """Counts additions and removals of hooks, so callers can detect whether any occurred."""

    __slots__ = ("count",)

    count: int


HANDLES = _Handles()
HANDLES.count = 0


class RemovableHandle:
    """Removes a hook; as a context manager, on exit."""

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(_ids)
        HANDLES.count += 1
        extra = extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra if d is not None)

    def remove(self) -> None:
        """Unregister the hook; repeated calls do nothing."""
        HANDLES.count += 1
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, int]:
        return self.hooks_dict_ref(), self.id

    def __setstate__(self, state: tuple[Any, int]) -> None:
        hooks = OrderedDict() if state[0] is None else state[0]
        self.hooks_dict_ref = weakref.ref(hooks)
        self.extra_dict_ref = ()
        self.id = state[1]

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()
