"""Modules of torch.ao.nn.quantized.reference."""

from .conv import (
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
)
from .linear import Linear
from .rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell
from .sparse import Embedding, EmbeddingBag

__all__ = [
    "GRU", "LSTM", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "Embedding", "EmbeddingBag", "GRUCell", "LSTMCell", "Linear", "RNNCell",
]
