"""Lists and dictionaries of scripts: `torch.jit.script([1, 2])` gives a list of ints only.

Scripted functions change them in place, whereas they get copies of plain lists and dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .checking.annotations import find_value_kind
from .checking.types import UNKNOWN, Kind, fits, is_known
from .torchscript.runtime import ScriptError

__all__ = ["ScriptDict", "ScriptList"]


def _infer_common(values: Iterable[Any], container: str, inputs: str) -> Kind:
    """Return the type of all values. Raise torch.jit.Error if they differ."""
    result = UNKNOWN
    for value in values:
        kind = find_value_kind(value)
        if is_known(result) and is_known(kind) and kind != result:
            raise ScriptError(f"Unable to infer type of {container}: {inputs}. "
                              f"Found {result} and {kind}")
        result = kind
    return result


def _check(value: Any, kind: Kind, error: type[Exception] = TypeError) -> None:
    """Raise an error without text, as PyTorch does, if a value has another type."""
    actual = find_value_kind(value)
    if is_known(kind) and is_known(actual) and not fits(actual, kind):
        raise error


class ScriptList(list[Any]):
    """A list of elements of one type, which scripted functions change in place.

    Raises TypeError for elements of other types.

    >>> values = torch.jit.script([1, 2])
    >>> values.append(3)
    >>> values, type(values).__name__
    ([1, 2, 3], 'ScriptList')
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(values)
        self._element = _infer_common(
            self, "list", "List inputs to traced functions must have consistent element type")

    def append(self, value: Any) -> None:
        """Add an element."""
        _check(value, self._element)
        super().append(value)

    def insert(self, index: Any, value: Any) -> None:
        """Insert an element. Raise IndexError beyond the end."""
        _check(value, self._element)
        if not -len(self) <= index <= len(self):
            raise IndexError("list index out of range")
        super().insert(index, value)

    def extend(self, values: Iterable[Any]) -> None:
        """Add several elements."""
        values = list(values)
        for value in values:
            _check(value, self._element)
        super().extend(values)

    def remove(self, value: Any) -> None:
        """Remove an element. Raise ValueError if it is absent."""
        _check(value, self._element)
        super().remove(value)

    def count(self, value: Any) -> int:
        """Count the elements that are equal to a value."""
        _check(value, self._element)
        return super().count(value)

    def __contains__(self, value: Any) -> bool:
        _check(value, self._element)
        return super().__contains__(value)

    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(index)
        return ScriptList(result) if isinstance(index, slice) else result

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            value = list(value)
            if len(value) != len(range(*index.indices(len(self)))):
                raise RuntimeError("Left and right hand size of slice assignment have different "
                                   "sizes")
        for element in value if isinstance(index, slice) else [value]:
            _check(element, self._element)
        super().__setitem__(index, value)


class ScriptDict(dict[Any, Any]):
    """A dictionary of keys and values of one type each, which scripted functions change in place.

    Raises TypeError for keys and values of other types, KeyError to look such a key up.

    >>> values = torch.jit.script({"a": 1})
    >>> values["b"] = 2
    >>> values
    {'a': 1, 'b': 2}
    """

    def __init__(self, values: dict[Any, Any]) -> None:
        super().__init__(values)
        inputs = "Dictionary inputs to traced functions must have consistent type"
        self._key = _infer_common(self, "dictionary", inputs)
        self._value = _infer_common(self.values(), "dictionary", inputs)

    def __getitem__(self, key: Any) -> Any:
        _check(key, self._key, KeyError)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _check(key, self._key)
        _check(value, self._value)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        _check(key, self._key)
        super().__delitem__(key)

    def __contains__(self, key: Any) -> bool:
        _check(key, self._key, KeyError)
        return super().__contains__(key)
