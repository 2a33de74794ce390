"""torch.utils._triton: whether Triton's kernels can run. flambeau makes its own kernels."""

from __future__ import annotations

__all__ = ["has_triton", "has_triton_package", "has_triton_tma", "has_triton_tma_device"]


def has_triton() -> bool:
    """False."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton
