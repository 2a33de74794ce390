"""torch.ao.nn.quantized.dynamic: modules that quantize what they are given as they compute."""

from .....tensor.absent import lacking
from .modules import GRU, LSTM, GRUCell, Linear, LSTMCell, RNNCell

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "Linear", "RNNCell"]

__getattr__ = lacking(__name__)
