"""Kernels that draw random numbers: words, what is made of words, and the C library's functions."""
