"""torch._subclasses.fake_tensor: programs ask whether a tensor is a fake one; here none is."""

from __future__ import annotations

from typing import Any

from ..tensor.absent import Lacking

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]

FakeTensor: Any = Lacking("torch._subclasses.fake_tensor.FakeTensor")
FakeTensorMode: Any = Lacking("torch._subclasses.fake_tensor.FakeTensorMode")


def is_fake(x: object) -> bool:
    """False: tensors without values are those on the meta device.

    >>> from flambeau._subclasses.fake_tensor import is_fake
    >>> is_fake(torch.ones(2))
    False
    """
    return False
