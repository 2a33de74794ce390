"""torch.return_types: the named results of operators such as max, sort and svd."""

from .ops.core.return_types import RETURN_TYPES
from .utils._pytree import pytree_register_structseq as pytree_register_structseq

globals().update(RETURN_TYPES)
__all__ = [*sorted(RETURN_TYPES), "all_return_types", "pytree_register_structseq"]

all_return_types = list(RETURN_TYPES.values())
