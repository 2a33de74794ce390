"""torch.distributed.tensor: tensors whose parts lie in several processes."""

import sys

from ...serialization import add_safe_globals
from ...tensor.absent import make_absent_getattr
from .. import device_mesh
from ..device_mesh import DeviceMesh, init_device_mesh
from . import _utils
from .distribution import distribute_module, distribute_tensor
from .dtensor import DTensor
from .factories import empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard
from .placement_types import _StridedShard as _StridedShard
from .spec import DTensorSpec, TensorMeta

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]

sys.modules[__name__ + ".device_mesh"] = device_mesh

add_safe_globals([
    DTensor, DTensorSpec, DeviceMesh, Partial, Replicate, Shard, TensorMeta, _StridedShard,
])

__getattr__ = make_absent_getattr(__name__)
