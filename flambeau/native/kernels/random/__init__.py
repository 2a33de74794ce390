"""Kernels that draw random numbers: generator words, distributions, the C library's functions."""
