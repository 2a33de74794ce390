"""torch.utils.dlpack: tensors to and from other libraries without copying."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that another library's from_dlpack takes, once.

    >>> capsule = torch.utils.dlpack.to_dlpack(torch.tensor([1, 2]))
    >>> torch.utils.dlpack.from_dlpack(capsule)
    tensor([1, 2])
    """
    return tensor.__dlpack__()


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The tensor on another library's memory: of an object with `__dlpack__`, or a capsule."""
    result: Tensor = ops.from_dlpack(ext_tensor)
    return result.clone() if copy else result
