"""torch.ao.nn.quantized: modules that compute in integers."""

from ....tensor.absent import make_absent_getattr
from . import dynamic, functional, modules, reference
from .modules import *

__all__ = ["dynamic", "functional", "reference"]
__all__ += modules.__all__

__getattr__ = make_absent_getattr(__name__)
