"""History of results without an implemented derivative: backward raises, so that no gradient is
lost silently.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NoReturn

from ...tensor.tensor import Tensor
from ..mode import MODE
from ..node import Node
from ..saved.plan import Plan
from ..tangents import LEVELS, find_innermost_level
from ..tape import create_node, requires


def raise_missing(name: str) -> NoReturn:
    """Raise NotImplementedError for an operator that PyTorch lists as not differentiable yet."""
    raise NotImplementedError(f"the derivative for '{name}' is not implemented.")


def raise_unlisted(name: str) -> NoReturn:
    """Raise RuntimeError for an operator missing from PyTorch's list of derivatives."""
    raise RuntimeError(f"derivative for aten::{name} is not implemented")


def record_without_derivative(name: str, result: Tensor, inputs: Sequence[Any], node: str = "") \
                              -> Tensor:
    """Record result = name(*inputs) if an input requires grad; backward raises as in PyTorch.

    `node`: the class name of PyTorch's node, if its list of derivatives has the operator.
    """
    if not MODE.grad or result._array.dtype.kind not in "fcV":
        return result
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    if LEVELS.active and find_innermost_level(tuple(tensors)) is not None:
        raise NotImplementedError(f"Trying to use forward AD with {name} that does not support it "
                                  "because it has not been implemented yet.")
    edges = tuple(x._node or x for x in tensors if x._tracked and requires(x))
    if edges:
        result._node = create_node(_plan(name, node), edges, (), (), None)
        result._requires_grad = result._tracked = True
    return result


class _Unwritten(Node):
    """A node whose backward raises."""

    raises: Any

    def apply(self, g: Any) -> Sequence[Any]:
        """Raise the error that names the operator."""
        return self.raises()


@functools.cache
def _plan(name: str, node: str) -> Plan:
    raises = functools.partial(raise_missing if node else raise_unlisted, name)
    attributes = {"__slots__": (), "__module__": "builtins", "raises": staticmethod(raises)}
    return Plan(type(node or "NotImplemented", (_Unwritten,), attributes), (), (), (), False)
