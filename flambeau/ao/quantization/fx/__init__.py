"""torch.ao.quantization.fx: graph mode quantization, and the operators of its graphs."""

from ....tensor.absent import lacking

__getattr__ = lacking(__name__)
