"""torch.special: what the operators publish under that name."""

from __future__ import annotations


from .ops.core.operator import PUBLIC

globals().update(PUBLIC.get("special", {}))
__all__ = sorted(PUBLIC.get("special", {}))
