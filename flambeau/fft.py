"""torch.fft: what the operators publish under that name."""

from __future__ import annotations


from .ops.core.operator import PUBLIC

globals().update(PUBLIC.get("fft", {}))
__all__ = sorted(PUBLIC.get("fft", {}))
