"""torch.distributed._tensor: the old name of torch.distributed.tensor and of its modules."""

import sys

from .. import device_mesh
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import (
    DTensor, Partial, Placement, Replicate, Shard, distribute_module, distribute_tensor, empty,
    full, ones, placement_types, rand, randn, zeros,
)

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]

sys.modules[__name__ + ".api"] = sys.modules[__name__]
sys.modules[__name__ + ".device_mesh"] = device_mesh
sys.modules[__name__ + ".placement_types"] = placement_types
