"""TensorType: type annotations with a shape, where Dyn means any size."""

from __future__ import annotations

from typing import Any

from ._compatibility import compatibility

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class _DynType:
    """Any size, or any type."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__)

    def __hash__(self) -> int:
        return hash(type(self))

    def __str__(self) -> str:
        return "Dyn"

    __repr__ = __str__


Dyn = _DynType()


@compatibility(is_backward_compatible=False)
class TensorType:
    """The type of tensors with a given shape: `TensorType((1, 3, Dyn))`."""

    def __init__(self, dim: Any) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Any:
        """The sizes."""
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        first = args[0]
        return TensorType(first if isinstance(first, tuple) else (first,))


def _have_equal_length(t1: Any, t2: Any) -> bool:
    return isinstance(t1, TensorType) and isinstance(t2, TensorType) and \
        len(t1.__args__) == len(t2.__args__)


@compatibility(is_backward_compatible=False)
def is_consistent(t1: Any, t2: Any) -> bool:
    """Return whether the two types are compatible, with Dyn matching anything. Symmetric."""
    if t1 in (t2, Dyn) or t2 == Dyn:
        return True
    return _have_equal_length(t1, t2) and all(map(is_consistent, t1.__args__, t2.__args__))


@compatibility(is_backward_compatible=False)
def is_more_precise(t1: Any, t2: Any) -> bool:
    """Return whether `t1` is at least as precise as `t2`."""
    if t2 in (t1, Dyn):
        return True
    return _have_equal_length(t1, t2) and all(map(is_more_precise, t1.__args__, t2.__args__))
