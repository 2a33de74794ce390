"""torch.storage: memory, untyped and typed."""

from .tensor.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
