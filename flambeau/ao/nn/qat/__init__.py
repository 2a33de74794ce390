"""torch.ao.nn.qat: layers whose weights are rounded to 8 bits as they are trained."""

from ....tensor.absent import lacking
from . import dynamic
from .layers import Conv1d, Conv2d, Conv3d, Embedding, EmbeddingBag, Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear", "dynamic"]

__getattr__ = lacking(__name__)
