"""Events sent to rules: calls of modules and losses, backward passes, updates, and others."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor
from .graph import Graph, find_producer
from .places import Spot
from .samples import hash_rows


@dataclass
class ModuleCall:
    """A call of a module from outside any other module or, while watching closely, of a layer."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    spot: Spot | None
    recorded: bool  # whether gradients were enabled
    backwards: int  # number of earlier backward passes
    steps: int  # number of earlier updates

    @cached_property
    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, Tensor)]

    @cached_property
    def hashes(self) -> list[int]:
        """Hashes of the samples of the first tensor; empty if it has fewer than two axes."""
        array = self.tensors[0]._array if self.tensors else None
        return [] if array is None or array.ndim < 2 else hash_rows(array)


@dataclass
class LossCall:
    """A call of a loss function of nn.functional."""

    name: str
    input: Tensor
    target: Any
    arguments: dict[str, Any]  # by parameter name
    result: Any
    spot: Spot | None
    module: Any  # the innermost running module, such as nn.CrossEntropyLoss
    recorded: bool

    @property
    def is_of_module(self) -> bool:
        """Whether `module` is a loss module, such as nn.CrossEntropyLoss."""
        return type(self.module).__module__.startswith("flambeau.nn.modules.loss")

    @cached_property
    def node(self) -> Any:
        """The node that computed the input, skipping reshapes."""
        return find_producer(self.input)

    @cached_property
    def values(self) -> np.ndarray:
        """The input's array."""
        return self.input._array

    @cached_property
    def classes(self) -> int | None:
        """The number of classes: the length of the input's axis 1, or of axis 0 if 1-d."""
        shape = self.input._array.shape
        return None if not shape else shape[1 if len(shape) > 1 else 0]

    def argument(self, name: str, default: Any = None) -> Any:
        """Return an argument by parameter name, or `default`."""
        return self.arguments.get(name, default)


@dataclass
class Tokens:
    """A call of an embedding: the indices and the rows it returned."""

    indices: np.ndarray
    rows: Any  # a tensor; rules drop it at the next backward pass
    padding: int | None
    spot: Spot | None


@dataclass
class Statistic:
    """A mean, deviation or extreme per column of a table, computed outside any module."""

    rows: int
    spots: tuple[Spot, ...]  # where it was computed, and the caller of that function


@dataclass
class Backward:
    """A backward pass, before it runs."""

    number: int
    roots: list[Any]
    tensor: Tensor | None  # the tensor that is differentiated
    spot: Spot | None
    watched: bool
    steps: int  # number of earlier updates
    _graph: Graph | None = field(default=None, repr=False)

    @property
    def graph(self) -> Graph:
        """The graph below the roots."""
        if self._graph is None:
            self._graph = Graph(self.roots)
        return self._graph

    @property
    def value(self) -> float | None:
        """The loss, or None if the tensor is not a single real number."""
        tensor = self.tensor
        if tensor is None or tensor._array.size != 1 or tensor._array.dtype.kind == "c":
            return None
        return float(tensor._array.reshape(-1)[0])


@dataclass
class Update:
    """An optimizer step."""

    optimizer: Any
    number: int  # counts this optimizer's steps, from 1
    spot: Spot | None
    watched: bool

    @cached_property
    def params(self) -> list[Tensor]:
        """The parameters of all groups."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]


def is_zero(tensor: Tensor | None) -> bool:
    """Return whether a gradient is None or all zeros."""
    return tensor is None or not np.any(tensor._array)
