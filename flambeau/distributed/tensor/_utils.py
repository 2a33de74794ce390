"""torch.distributed.tensor._utils: which part of a global tensor lies in this process."""

from __future__ import annotations

from collections.abc import Sequence

from ..device_mesh import DeviceMesh
from .placement_types import Placement
from .spec import find_local_part

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's part, and where it starts, unless `skip_offset`.

    >>> from types import SimpleNamespace as Mesh
    >>> from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset
    >>> second = Mesh(get_coordinate=lambda: [1], size=lambda axis: 2)
    >>> cut = torch.distributed.tensor.Shard(0)
    >>> compute_local_shape_and_global_offset((5, 2), second, [cut])
    ((2, 2), (3, 0))
    """
    shape, offset = find_local_part(global_shape, mesh, placements)
    return shape, () if skip_offset else offset
