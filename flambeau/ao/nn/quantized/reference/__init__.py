"""torch.ao.nn.quantized.reference: float modules that round their weights as quantized ones do."""

from .modules import (
    GRU, LSTM, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Embedding,
    EmbeddingBag, GRUCell, Linear, LSTMCell, RNNCell,
)

__all__ = [
    "GRU", "LSTM", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "Embedding", "EmbeddingBag", "GRUCell", "LSTMCell", "Linear", "RNNCell",
]
