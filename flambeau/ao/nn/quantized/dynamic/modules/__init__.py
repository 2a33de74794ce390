"""The modules of torch.ao.nn.quantized.dynamic."""

from .linear import Linear
from .rnn import GRU, LSTM
from .rnn_cells import GRUCell, LSTMCell, RNNCell

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "Linear", "RNNCell"]
