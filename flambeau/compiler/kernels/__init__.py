"""Kernels: build loop nests in the loop IR from fusion groups."""
