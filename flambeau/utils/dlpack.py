"""torch.utils.dlpack: exchange tensors with other libraries without copying."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule for another library's from_dlpack. It can be consumed once.

    >>> capsule = torch.utils.dlpack.to_dlpack(torch.tensor([1, 2]))
    >>> torch.utils.dlpack.from_dlpack(capsule)
    tensor([1, 2])
    """
    return tensor.__dlpack__()


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor on the memory of an object with `__dlpack__`, or of a capsule."""
    result: Tensor = ops.from_dlpack(ext_tensor)
    return result.clone() if copy else result
