"""OwnReference: a weak reference by which the library finds an object, whatever it becomes."""

from __future__ import annotations

import weakref
from typing import Any


class OwnReference(weakref.ref[Any]):
    """A weak reference that does not count as one of the program's."""

    __slots__ = ()


def has_weak_references(x: Any) -> bool:
    """Whether the program refers weakly to an object."""
    return any(not isinstance(ref, OwnReference) for ref in weakref.getweakrefs(x))
