"""torch.ao.nn.quantized: modules that compute in integers."""

from ....tensor.absent import lacking
from . import dynamic
from .modules import (
    Conv1d, Conv2d, Conv3d, DeQuantize, Embedding, EmbeddingBag, FloatFunctional, Linear,
    QFunctional, Quantize,
)

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "DeQuantize", "Embedding", "EmbeddingBag", "FloatFunctional",
    "Linear", "QFunctional", "Quantize", "dynamic",
]

__getattr__ = lacking(__name__)
