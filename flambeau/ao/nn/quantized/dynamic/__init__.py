"""torch.ao.nn.quantized.dynamic: modules that quantize their inputs at each call."""

from .....tensor.absent import make_absent_getattr
from .modules import (
    GRU, LSTM, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, GRUCell,
    Linear, LSTMCell, RNNCell,
)

__all__ = [
    "GRU", "LSTM", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "GRUCell", "LSTMCell", "Linear", "RNNCell",
]

__getattr__ = make_absent_getattr(__name__)
