"""torch.ao.quantization.fx: graph mode quantization, and the operators of its graphs."""

from ....tensor.absent import make_absent_getattr

__getattr__ = make_absent_getattr(__name__)
