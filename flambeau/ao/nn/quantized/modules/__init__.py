"""The modules of torch.ao.nn.quantized."""

from .conv import Conv1d, Conv2d, Conv3d
from .embedding import Embedding, EmbeddingBag
from .functional_modules import FloatFunctional, QFunctional
from .linear import Linear, LinearPackedParams
from .quantize import DeQuantize, Quantize

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "DeQuantize", "Embedding", "EmbeddingBag", "FloatFunctional",
    "Linear", "LinearPackedParams", "QFunctional", "Quantize",
]
