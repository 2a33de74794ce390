"""torch._library.infer_schema: the types that a schema inferred from annotations may have."""

from ..library import infer_schema
from ..ops.registration.inferred_schema import SUPPORTED_PARAM_TYPES, SUPPORTED_RETURN_TYPES

__all__ = ["SUPPORTED_PARAM_TYPES", "SUPPORTED_RETURN_TYPES", "infer_schema"]
