"""Factories of DTensors: ones, zeros, empty, full, rand and randn on a device mesh.

Random numbers are those of one process with the same seed: every process draws the whole tensor
and keeps its part, so that all need the same generator state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...tensor import Tensor
from ..device_mesh import DeviceMesh
from .dtensor import DTensor
from .placement_types import Placement, Replicate
from .redistribute import redistribute_local
from .spec import DTensorSpec, TensorMeta, dense_strides, find_local_part, normalize_placements

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _find_size(size: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape from numbers or one sequence."""
    if len(size) == 1 and isinstance(size[0], Sequence):
        size = size[0]
    return tuple(int(n) for n in size)


def _create(
    make: Callable[..., Tensor], size: Sequence[Any], mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None, requires_grad: bool, dtype: Any, is_random: bool,
) -> DTensor:
    """Create each process's part with `make(shape, dtype=...)`."""
    shape = _find_size(size)
    mesh = DeviceMesh.current() if mesh is None else mesh
    chosen = normalize_placements(placements, mesh, len(shape))
    if mesh.get_coordinate() is None:
        local = make(0, dtype=dtype)
        meta = TensorMeta(shape, dense_strides(shape, range(len(shape), 0, -1)), local.dtype)
    elif is_random:
        full = make(shape, dtype=dtype)
        meta = TensorMeta(shape, tuple(full.stride()), full.dtype)
        spec = DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta)
        local = redistribute_local(full, spec, chosen)
    else:
        local = make(find_local_part(shape, mesh, chosen)[0], dtype=dtype)
        meta = TensorMeta(shape, dense_strides(shape, local.stride()), local.dtype)
    return DTensor(local, DTensorSpec(mesh, chosen, meta), requires_grad=requires_grad)


def ones(
    *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a DTensor of ones."""
    return _create(ops.ones, size, device_mesh, placements, requires_grad, dtype, False)


def zeros(
    *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a DTensor of zeros."""
    return _create(ops.zeros, size, device_mesh, placements, requires_grad, dtype, False)


def empty(
    *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a DTensor with arbitrary values."""
    return _create(ops.empty, size, device_mesh, placements, requires_grad, dtype, False)


def full(
    size: Sequence[int], fill_value: Any, *, dtype: Any = None, layout: Any = None,
    requires_grad: bool = False, device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a DTensor filled with a value."""
    def make(shape: Sequence[int], dtype: Any) -> Tensor:
        return ops.full(shape, fill_value, dtype=dtype)

    return _create(make, (size,), device_mesh, placements, requires_grad, dtype, False)


def rand(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a DTensor of uniform random numbers in [0, 1)."""
    return _create(ops.rand, size, device_mesh, placements, requires_grad, dtype, True)


def randn(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a DTensor of normal random numbers."""
    return _create(ops.randn, size, device_mesh, placements, requires_grad, dtype, True)
