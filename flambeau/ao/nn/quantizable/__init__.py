"""torch.ao.nn.quantizable: recurrent layers and attention out of parts that can be quantized."""

from ....tensor.absent import make_absent_getattr
from . import modules
from .modules import LSTM, LSTMCell, MultiheadAttention

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention", "modules"]

__getattr__ = make_absent_getattr(__name__)
