"""Ambient modes: the settings that operators read without an argument, as a call is recorded."""

from __future__ import annotations

from typing import NamedTuple

from ...autograd.mode import MODE
from ...native.target.matmul_precision import MatmulPrecision
from ...ops.core.autocast import AUTOCAST, autocast_now
from ...tensor.devices import device, get_default_device
from ...tensor.dtypes import dtype, get_default_dtype


class AmbientModes(NamedTuple):
    """What a program takes for granted of the thread and the process that call it."""

    grad: bool
    inference: bool
    autocast: tuple | None
    matmul_parts: int
    default_dtype: dtype
    default_device: device


def ambient_modes() -> AmbientModes:
    """The modes of this thread now."""
    autocast = autocast_now() if AUTOCAST.count else None
    return AmbientModes(MODE.grad, MODE.inference, autocast, MatmulPrecision.parts, *defaults())


def defaults() -> tuple[dtype, device]:
    """The dtype and the device of tensors that a step makes without naming them."""
    return get_default_dtype(), get_default_device()
