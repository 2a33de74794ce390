"""torch.utils._triton: availability of Triton. flambeau compiles its kernels without it."""

from __future__ import annotations

__all__ = ["has_triton", "has_triton_package", "has_triton_tma", "has_triton_tma_device"]


def has_triton() -> bool:
    """Return False."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton
