"""torch.storage: memory, untyped and typed."""

from typing import Any

from .tensor.dtypes import dtype
from .tensor.storage import STORAGE_TYPES, TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _dtype_to_storage_type_map() -> dict[dtype, str]:
    return {kind: result.__name__ for kind, result in STORAGE_TYPES.items()}


def _storage_type_to_dtype_map() -> dict[str, dtype]:
    return {result.__name__: kind for kind, result in STORAGE_TYPES.items()}


def _load_from_bytes(b: bytes) -> Any:
    """Return what `torch.save` wrote: storages that old versions pickled refer to this."""
    from io import BytesIO

    from .serialization import load

    return load(BytesIO(b), weights_only=False)
