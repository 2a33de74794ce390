"""torch.ao.nn.qat: layers that fake-quantize their weights to 8 bits during training."""

from ....tensor.absent import make_absent_getattr
from . import dynamic
from .layers import Conv1d, Conv2d, Conv3d, Embedding, EmbeddingBag, Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear", "dynamic"]

__getattr__ = make_absent_getattr(__name__)
