"""Declarations of torch.linalg's operators and functions, and transposes for their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.operator import publish
from ..core.registry import Declared, composite, opaque
from ..core.value_rules import ONLY_RUNNING_TELLS


def _compose_node_name(name: str) -> str:
    """Return the name of an operator's node: LinalgEighBackward0."""
    return "Linalg" + "".join(part.capitalize() for part in name.split("_")) + "Backward0"


def linalg_operator(**options: Any) -> Callable[[Callable], Declared]:
    """Declare an operator, published as torch.linalg.NAME.

    Its vjps must conjugate explicitly (`mH`), whatever the number of outputs.
    """

    def decorate(body: Callable) -> Any:
        name = body.__name__
        settings = {"node": _compose_node_name(name), "holomorphic": False,
                    "values": ONLY_RUNNING_TELLS, **options}
        result = opaque(name=f"linalg_{name}", expose=(), **settings)(body)
        publish(result, (name,), ("linalg",))
        return result

    return decorate


def linalg_function(
    *also: str, autocast: Policy | None = None
) -> Callable[[Callable], Declared]:
    """Declare a composite function, published as torch.linalg.NAME; `also` are names in torch."""

    def decorate(body: Callable) -> Any:
        name = body.__name__
        body.__name__ = body.__qualname__ = f"linalg_{name}"
        result = composite(expose=(), explains=True, autocast=autocast)(body)
        publish(result, (name,), ("linalg",))
        if also:
            publish(result, also, ("torch", "Tensor"))
        return result

    return decorate


def mT(x: Tensor) -> Tensor:
    """Transpose of the matrices."""
    return x.transpose(-2, -1)


def mH(x: Tensor) -> Tensor:
    """Conjugate transpose of the matrices."""
    return x.transpose(-2, -1).conj()


def to_dtype_of(x: Tensor, like: Tensor) -> Tensor:
    """Cast a real result to the dtype of `like`, which may be complex."""
    return x if x.dtype is like.dtype else x.to(like.dtype)
