"""Weak references by identity: dictionaries keyed by tensors, whose `==` compares elements.

An entry is removed when its tensor dies."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from ..tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

WeakRef = weakref.ref


class WeakIdRef(weakref.ref):
    """Weak reference equal to others of the same object, regardless of the object's `==`.

    A reference to a dead object equals only itself.

    >>> x = torch.ones(2)
    >>> torch.utils.weak.WeakIdRef(x) == torch.utils.weak.WeakIdRef(x)
    True
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        own, referent = self(), other() if isinstance(other, weakref.ref) else None
        if own is None or referent is None:
            return self is other
        return own is referent


class _WeakHashRef(weakref.ref):
    """Weak reference equal to others of objects with the same hash."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        self._id = hash(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        own, referent = self(), other() if isinstance(other, weakref.ref) else None
        if own is None or referent is None:
            return self is other
        return hash(own) == hash(referent)


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """Dictionary of weak references to its keys, compared by identity.

    An entry is removed when its key dies. Iterating while keys die is safe.

    >>> names = torch.utils.weak.WeakTensorKeyDictionary()
    >>> x = torch.ones(2)
    >>> names[x] = "ones"
    >>> names[x], len(names)
    ('ones', 1)
    >>> del x
    >>> len(names)
    0
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        dictionary = weakref.ref(self)

        def remove(reference: Any) -> None:
            alive = dictionary()
            if alive is not None:
                alive.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # not weakly referenceable
            return False

    def items(self) -> Any:
        """Iterate over the entries whose keys are alive."""
        for reference, value in list(self.data.items()):
            key = reference()
            if key is not None:
                yield key, value

    def keys(self) -> Any:
        """Iterate over the keys that are alive."""
        for key, _ in self.items():
            yield key

    def __iter__(self) -> Iterator[Any]:
        return self.keys()

    def values(self) -> Any:
        """Iterate over the values whose keys are alive."""
        for _, value in self.items():
            yield value

    def keyrefs(self) -> list[Any]:
        """Return weak references to the keys, some of which may die before they are called."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Return a dictionary of the same keys and values."""
        return WeakIdKeyDictionary(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        new = type(self)()
        for key, value in self.items():
            new[key] = copy.deepcopy(value, memo)
        return new

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self.data.get(self.ref_type(key), default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key and return its value, or the default; without one, raise KeyError."""
        return self.data.pop(self.ref_type(key), *default)

    def popitem(self) -> tuple[Any, Any]:
        """Remove and return the last entry. Raises KeyError if there is none."""
        while True:
            reference, value = self.data.popitem()
            key = reference()
            if key is not None:
                return key, value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return a key's value; set it to the default first if missing."""
        return self.data.setdefault(self.ref_type(key, self._remove), default)

    def update(self, dict: Any = None, **kwargs: Any) -> None:  # type: ignore[override]
        """Add the entries of a mapping or of pairs."""
        if dict is not None:
            entries = dict if hasattr(dict, "items") else type(self.data)(dict)
            for key, value in entries.items():
                self[key] = value
        for name, value in kwargs.items():
            self[name] = value

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        merged = type(self)(other)
        merged.update(self)
        return merged

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        own = {id(key): value for key, value in self.items()}
        return own == {id(key): value for key, value in other.items()}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """Weak reference to a tensor; calling it returns the tensor, or None after its death.

    Raises AssertionError for objects other than tensors.

    >>> x = torch.ones(2)
    >>> torch.utils.weak.TensorWeakRef(x)() is x
    True
    """

    ref: weakref.ref[Tensor]

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
