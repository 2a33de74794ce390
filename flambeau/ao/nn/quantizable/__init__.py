"""torch.ao.nn.quantizable: recurrent layers and attention out of parts that can be quantized."""

from ....tensor.absent import lacking
from . import modules
from .modules import LSTM, LSTMCell, MultiheadAttention

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention", "modules"]

__getattr__ = lacking(__name__)
