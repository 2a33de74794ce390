"""Operators on quantized tensors, fake quantization, and products of integers."""
