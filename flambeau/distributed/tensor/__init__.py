"""torch.distributed.tensor: tensors whose parts lie in several processes."""

from ...tensor.absent import lacking
from ..device_mesh import DeviceMesh as DeviceMesh
from .distribution import distribute_module, distribute_tensor
from .dtensor import DTensor
from .factories import empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard
from .placement_types import _StridedShard as _StridedShard

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros",
]

__getattr__ = lacking(__name__)
