"""torch._functorch.eager_transforms: torch.func's transforms, at functorch's place."""

from __future__ import annotations

from typing import Any

from ..func import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from ..func.checks import parse_argnums

__all__ = [
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "vjp",
]


def _slice_argnums(args: tuple, argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments that `argnums` names."""
    chosen = tuple(args[i] for i in parse_argnums(argnums, len(args)))
    return chosen[0] if isinstance(argnums, int) and not as_tuple else chosen
