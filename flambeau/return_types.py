"""torch.return_types: the named results of operators such as max, sort and svd."""

from .ops.core.return_types import RETURN_TYPES

globals().update(RETURN_TYPES)
__all__ = sorted(RETURN_TYPES)
