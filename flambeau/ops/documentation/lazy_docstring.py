"""A docstring that is composed when it is read.

Composing seven hundred texts would add a third to the time of `import flambeau`. A function's
`__doc__` has no hook but may be a str subclass: this one holds the operator's own text, and its
methods work on the full text. C code that reads the buffer (`re`, `str.join`) sees only the former.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .stub_removal import Stubs


class LazyDocstring(str):
    """An operator's own text, completed with arguments, results and errors when read."""

    __slots__ = ("_compose", "_whole")

    _compose: Callable[[], str]
    _whole: str | None

    def __new__(cls, source: str, compose: Callable[[], str]) -> LazyDocstring:
        docstring = str.__new__(cls, source)
        docstring._compose, docstring._whole = compose, None
        return docstring

    @property
    def own(self) -> str:
        """The operator's own text."""
        return str.__str__(self)

    def __str__(self) -> str:
        whole = self._whole
        if whole is None:
            whole = self._whole = self._compose()
        return whole

    def __bool__(self) -> bool:
        return True

    def __radd__(self, before: str) -> str:
        return before + str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def _create_string_method(name: str) -> Callable[..., Any]:
    method = getattr(str, name)

    def function(self: LazyDocstring, *args: Any, **kwargs: Any) -> Any:
        return method(str(self), *args, **kwargs)

    function.__name__ = name
    return function


_EXCLUDED = {"maketrans", "__new__", "__init__", "__str__", "__reduce__", "__reduce_ex__"}
_PROTOCOL = ("__add__", "__contains__", "__eq__", "__format__", "__getitem__", "__hash__",
             "__iter__", "__len__", "__mod__", "__mul__", "__ne__", "__repr__")
for _name in (*(n for n in dir(str) if n[0] != "_" and n not in _EXCLUDED), *_PROTOCOL):
    setattr(LazyDocstring, _name, _create_string_method(_name))


def own_text(function: Any) -> str:
    """Return a function's own text, without composing the rest."""
    text = function.__doc__
    return text.own if isinstance(text, LazyDocstring) else text or ""


def document(function: Any, names: Sequence[str], namespaces: Sequence[str]) -> None:
    """Set a docstring that is composed when read, on a function published under `names`."""
    source = function.__doc__
    private = names[0].rpartition(".")[2].startswith("_")
    if private or source.__class__ is LazyDocstring or not (namespaces or "." in names[0]):
        return
    paths = [name if "." in name else f"{namespaces[0]}.{name}" for name in names]

    def composed() -> str:
        from .docstring import compose

        return compose(Stubs.take_off(function), source or "", paths)

    function.__doc__ = LazyDocstring(source or "", composed)
