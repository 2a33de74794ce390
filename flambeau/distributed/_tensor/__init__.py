"""torch.distributed._tensor: the old name of torch.distributed.tensor and of its modules."""

import sys

from .. import device_mesh
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import (
    DTensor, Partial, Placement, Replicate, Shard, _utils, distribute_module, distribute_tensor,
    empty, experimental, full, ones, placement_types, rand, randn, zeros,
)

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]

sys.modules[__name__ + ".api"] = sys.modules[__name__]
for _module in (device_mesh, placement_types, _utils, experimental):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module
