"""torch.ao.nn.quantized: modules that compute in integers."""

from ....tensor.absent import lacking
from . import dynamic, functional, reference
from .modules import (
    ELU, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
    ConvTranspose3d, DeQuantize, Dropout, Embedding, EmbeddingBag, FloatFunctional, GroupNorm,
    Hardswish, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm, LeakyReLU, Linear,
    MaxPool2d, PReLU, QFunctional, Quantize, ReLU6, Sigmoid, Softmax,
)

__all__ = [
    "ELU",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "DeQuantize",
    "Dropout",
    "Embedding",
    "EmbeddingBag",
    "FloatFunctional",
    "GroupNorm",
    "Hardswish",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "PReLU",
    "QFunctional",
    "Quantize",
    "ReLU6",
    "Sigmoid",
    "Softmax",
    "dynamic",
    "functional",
    "reference",
]

__getattr__ = lacking(__name__)
