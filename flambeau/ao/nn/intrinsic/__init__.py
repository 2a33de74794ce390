"""torch.ao.nn.intrinsic: fused float modules, each with a quantized counterpart.

`fuse_modules` creates them: a convolution or linear layer and the ReLU after it. Batch
normalization is folded into the weights first, or trained with them (`qat`).
"""

from ....tensor.absent import make_absent_getattr
from . import qat, quantized
from .fused import (
    BNReLU2d, BNReLU3d, ConvAdd2d, ConvAddReLU2d, ConvBn1d, ConvBn2d, ConvBn3d, ConvBnReLU1d,
    ConvBnReLU2d, ConvBnReLU3d, ConvReLU1d, ConvReLU2d, ConvReLU3d, LinearBn1d, LinearLeakyReLU,
    LinearReLU, LinearTanh, _FusedModule,
)

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvBn1d", "ConvBn2d", "ConvBn3d",
    "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d",
    "LinearBn1d", "LinearLeakyReLU", "LinearReLU", "LinearTanh", "_FusedModule", "qat",
    "quantized",
]

__getattr__ = make_absent_getattr(__name__)
