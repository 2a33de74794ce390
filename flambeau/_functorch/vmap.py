"""torch._functorch.vmap: torch.func.vmap, at functorch's place."""

from ..func import vmap
from .apis import chunk_vmap

__all__ = ["chunk_vmap", "vmap"]
