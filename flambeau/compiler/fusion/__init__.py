"""Fusion: which nodes share a kernel, and which values are stored or recomputed."""
