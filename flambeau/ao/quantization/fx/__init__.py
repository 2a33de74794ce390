"""torch.ao.quantization.fx: of graph mode the operators that its graphs are made of."""

from ....tensor.absent import lacking

__getattr__ = lacking(__name__)
