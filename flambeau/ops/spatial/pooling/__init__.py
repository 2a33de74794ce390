"""Pooling: average, maximum, adaptive and fractional windows, and unpooling."""
