"""torch.fft: what the operators publish under that name."""

from __future__ import annotations


from .tensor.absent import lacking
from .ops.core.registry import PUBLIC

globals().update(PUBLIC.get("fft", {}))
__all__ = sorted(PUBLIC.get("fft", {}))


__getattr__ = lacking(__name__)
