"""torch._functorch.apis: vmap, in one go or in chunks, and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..func import grad, grad_and_value, vmap
from ..tensor import Tensor
from ..tensor.tree import collect_leaves

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable:
    """vmap over `chunks` parts of the arguments, one behind the other, which takes less memory."""
    if chunks == 1:
        return vmap(func, in_dims=in_dims, out_dims=out_dims, randomness=randomness)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        size = max(_sizes(in_dims, args), default=0)
        whole = vmap(func, in_dims, out_dims, randomness,
                     chunk_size=max(1, math.ceil(size / chunks)))
        return whole(*args, **kwargs)

    return wrapper


def _sizes(in_dims: Any, args: tuple) -> list[int]:
    """The sizes of the tensors that vmap goes over, where its axes are numbers."""
    axes = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
    return [x.size(dim) for dim, arg in zip(axes, args, strict=False) if isinstance(dim, int)
            for x in collect_leaves(Tensor, arg) if x.dim()]
