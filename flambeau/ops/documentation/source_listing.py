"""Source shown by `torch.softmax??` and inspect.getsource: an operator's body and derivatives.

All operators share one dispatcher, which users call. Its `__wrapped__` is a module with the
declaration as its source: tools follow that attribute and read the whole file of a module. The text
is composed on demand.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol


class Declaration(Protocol):
    """The parts of an operator that are shown."""

    name: str
    doc: str
    body: Callable
    joint: Callable | None
    vjps: dict[str, Callable]


class SourceListing(ModuleType):
    """The declaration of an operator, as a file that exists only in linecache."""

    __file__: str

    def __init__(self, operator: Declaration, signature: Callable[[], inspect.Signature]) -> None:
        super().__init__(operator.name, operator.doc)
        home = operator.body.__code__.co_filename
        self.__file__ = f"{home} [{operator.name}]"
        self._signature = signature
        linecache.cache[self.__file__] = (lambda: compose(operator),)

    @property
    def __signature__(self) -> inspect.Signature:
        return self._signature()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise TypeError; inspect.signature only requires that the object is callable."""
        raise TypeError("a source listing runs nothing")


def attach(
    function: Any, operator: Declaration, signature: Callable[[], inspect.Signature]
) -> None:
    """Make tools show the operator's declaration as the function's source."""
    function.__wrapped__ = SourceListing(operator, signature)


def compose(operator: Declaration) -> str:
    """Return the source of the body and each vjp, in file order."""
    vjps = [operator.joint, *operator.vjps.values()]
    functions = {id(f): f for f in (operator.body, *vjps) if f is not None}
    blocks = []
    for function in functions.values():
        try:
            lines, number = inspect.getsourcelines(function)
        except (OSError, TypeError):
            continue  # a ufunc, or code without a file
        file = inspect.getsourcefile(function) or ""
        blocks.append((file, number, "".join(lines)))
    parts = []
    for file, number, text in sorted(blocks):
        parts.append(f"# {file}:{number}\n{text}")
    return "\n\n".join(parts)
