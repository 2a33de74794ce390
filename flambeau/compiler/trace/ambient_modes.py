"""Ambient modes: settings that operators read implicitly."""

from __future__ import annotations

from typing import NamedTuple

from ...autograd.mode import MODE
from ...native.target.matmul_precision import MatmulPrecision
from ...ops.core.autocast import AUTOCAST, get_autocast_dtype
from ...tensor.determinism import should_fill
from ...tensor.devices import device, get_default_device
from ...tensor.dtypes import dtype, get_default_dtype


class AmbientModes(NamedTuple):
    """The settings of the calling thread and process that a program specializes on."""

    grad: bool
    inference: bool
    autocast: tuple | None
    matmul_parts: int
    default_dtype: dtype
    default_device: device
    fills_new_memory: bool


def read_ambient_modes() -> AmbientModes:
    """Read the modes of this thread."""
    autocast = get_autocast_dtype() if AUTOCAST.count else None
    return AmbientModes(
        MODE.grad, MODE.inference, autocast, MatmulPrecision.parts, *read_defaults()
    )


def read_defaults() -> tuple[dtype, device, bool]:
    """Read the default dtype and device of new tensors, and whether their memory is filled."""
    return get_default_dtype(), get_default_device(), should_fill()
