"""torch.ao.nn.quantized: modules that compute in integers."""

from ....tensor.absent import lacking
from . import dynamic, functional, modules, reference
from .modules import *

__all__ = ["dynamic", "functional", "reference"]
__all__ += modules.__all__

__getattr__ = lacking(__name__)
