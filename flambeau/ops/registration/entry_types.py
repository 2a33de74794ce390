"""The types of the entries of torch.ops, whether aten's or a library's."""

from __future__ import annotations

from typing import Any

from ..core.aten import Overload, Packet
from .custom_operators import CustomOperator, CustomPacket

__all__ = ["OpOverload", "OpOverloadPacket"]


class _KindOfOperator(type):
    """Metaclass whose classes match instances of several flambeau classes."""

    kinds: tuple[type, ...]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.kinds)


class OpOverload(metaclass=_KindOfOperator):
    """The type of `torch.ops.aten.add.Tensor` and of custom operators.

    >>> isinstance(torch.ops.aten.add.Tensor, torch.library.OpOverload)
    True
    """

    kinds = (Overload, CustomOperator)


class OpOverloadPacket(metaclass=_KindOfOperator):
    """The type of `torch.ops.aten.add`: an operator with its overloads."""

    kinds = (Packet, CustomPacket)
