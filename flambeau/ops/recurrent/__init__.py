"""RNN, LSTM and GRU layers."""
