"""Which tensors a kernel over lists takes together; libraries of optimizers import it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..optim.derived import GraphCaptureChecks
from ..tensor.devices import device as Device
from ..tensor.tensor import Tensor

Indices: TypeAlias = list[int]
TensorListList: TypeAlias = list[list[Tensor | None]]

_foreach_supported_types: list[type] = [Tensor]
_group_tensors_by_device_and_dtype = GraphCaptureChecks._group_tensors_by_device_and_dtype


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the types of devices with kernels over lists of tensors, the CPU left out."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the types of devices on which an optimizer's step can be one kernel."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _device_has_foreach_support(device: Device) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: Sequence[Any], device: Device) -> bool:
    return _device_has_foreach_support(device) and all(
        t is None or type(t) in _foreach_supported_types for t in tensors)
