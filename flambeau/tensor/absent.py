"""Names that PyTorch has and flambeau does not have yet: importing one works, using it says so.

A program that imports torch.onnx or torch.fx for something that this run of it does not do, runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Union

__all__ = ["Lacking", "lacking"]


class Lacking:
    """A function or class that is not there yet: NotImplementedError when called or derived from.

    >>> torch.onnx.export(None)
    Traceback (most recent call last):
    NotImplementedError: torch.onnx.export is not implemented in flambeau
    """

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self.__module__ = name.rpartition(".")[0]
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self._name} is not implemented in flambeau")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        self()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Lacking(f"{self._name}.{name}")

    def __instancecheck__(self, instance: Any) -> bool:
        return False  # nothing can be one

    def __subclasscheck__(self, subclass: Any) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007  # whose `|` this is

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        return f"<{self._name}, which is not implemented in flambeau>"


def lacking(module: str, names: Iterable[str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that gives a Lacking for each of the names."""
    known = frozenset(names)
    torch_name = "torch" + module.removeprefix("flambeau")

    def __getattr__(name: str) -> Any:
        if name in known:
            return Lacking(f"{torch_name}.{name}")
        raise AttributeError(f"module '{torch_name}' has no attribute '{name}'")

    return __getattr__
