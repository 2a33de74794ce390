"""The modules of torch.ao.nn.quantized.dynamic."""

from .conv import (
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
)
from .linear import Linear
from .rnn import GRU, LSTM
from .rnn_cells import GRUCell, LSTMCell, RNNCell

__all__ = [
    "GRU", "LSTM", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "GRUCell", "LSTMCell", "Linear", "RNNCell",
]
