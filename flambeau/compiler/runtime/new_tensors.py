"""New tensors: the functions with which a program builds the tensors that a step returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.errors.graph_errors import raise_freed
from ...autograd.node import Node
from ...tensor.storage import VersionCounter
from ...tensor.tensor import INFERENCE, Tensor, view_of


class CompiledBackward(Node):
    """The history of a tensor returned by a compiled step whose graph backward has freed."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        """Raise the error for a freed graph."""
        raise_freed(self)


def view(source: Tensor, array: np.ndarray | None) -> Tensor:
    """Return a view of a tensor, on `array` or on the source's array."""
    return view_of(source, source._array if array is None else array)


def alias(source: Tensor, array: np.ndarray | None) -> Tensor:
    """Return a detached tensor that shares another's version counter."""
    tensor = source._alias()
    if array is not None:
        tensor._array = array
    return tensor


def count_from(version: int, tensor: Tensor) -> Tensor:
    """Start a new tensor's version at its value in the recorded call."""
    tensor._counter = VersionCounter()
    tensor._counter.value = version
    return tensor


def set_inference(tensor: Tensor, is_inference: bool) -> Tensor:
    """Make a new tensor one of inference mode or of normal mode, which the step switched to."""
    tensor._stamp = INFERENCE if is_inference else None
    return tensor


def require_grad(tensor: Tensor) -> Tensor:
    """Make a new tensor a leaf that requires grad."""
    tensor._requires_grad = tensor._tracked = True
    return tensor


def attach_freed(tensor: Tensor, node: Node) -> Tensor:
    """Give a new tensor a history that backward has freed."""
    tensor._node = node
    tensor._requires_grad = tensor._tracked = True
    return tensor
