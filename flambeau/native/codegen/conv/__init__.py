"""Convolutions: direct tiles for known sizes, implicit GEMM for sizes known at run time."""
