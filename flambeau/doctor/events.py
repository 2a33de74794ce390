"""What rules are told: calls of modules and losses, backward passes, updates, and others."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor
from .graph import Graph, producer
from .places import Spot
from .samples import row_hashes


@dataclass
class ModuleCall:
    """A call of a module from outside of any other, or, while watched, of any layer."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    spot: Spot | None
    recorded: bool  # whether gradients were enabled
    backwards: int  # how many backward passes came before
    steps: int  # and how many updates

    @cached_property
    def tensors(self) -> list[Tensor]:
        """The tensors among its arguments."""
        return [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, Tensor)]

    @cached_property
    def hashes(self) -> list[int]:
        """Numbers that tell the samples of the first tensor apart; none where it has one axis."""
        array = self.tensors[0]._array if self.tensors else None
        return [] if array is None or array.ndim < 2 else row_hashes(array)


@dataclass
class LossCall:
    """A call of a function of nn.functional that computes a loss."""

    name: str
    input: Tensor
    target: Any
    arguments: dict[str, Any]  # all of them, by parameter
    result: Any
    spot: Spot | None
    module: Any  # the loss's own module or the innermost one that called it
    recorded: bool

    @property
    def is_of_module(self) -> bool:
        """Whether `module` is the loss's own, such as nn.CrossEntropyLoss."""
        return type(self.module).__module__.startswith("flambeau.nn.modules.loss")

    @cached_property
    def node(self) -> Any:
        """The node that computed the input, seen through reshapes."""
        return producer(self.input)

    @cached_property
    def values(self) -> np.ndarray:
        """The input's numbers."""
        return self.input._array

    @cached_property
    def classes(self) -> int | None:
        """How many classes the input scores: the length of its axis 1, of 0 if it has no other."""
        shape = self.input._array.shape
        return None if not shape else shape[1 if len(shape) > 1 else 0]

    def argument(self, name: str, default: Any = None) -> Any:
        """One of the arguments."""
        return self.arguments.get(name, default)


@dataclass
class Tokens:
    """A call of an embedding: what was looked up, and the rows that it gave."""

    indices: np.ndarray
    rows: Any  # a tensor; rules let go of it at the next backward pass
    padding: int | None
    spot: Spot | None


@dataclass
class Statistic:
    """A mean, deviation or extreme of each column of a table, outside of any module."""

    rows: int
    spots: tuple[Spot, ...]  # where it was taken, and the line that called that function


@dataclass
class Backward:
    """A backward pass that adds to `.grad`, before it runs."""

    number: int
    roots: list[Any]
    tensor: Tensor | None  # what `.backward()` was called on
    spot: Spot | None
    previous_sequence: int  # of the newest node when the pass before this began
    watched: bool
    steps: int  # how many updates came before
    _graph: Graph | None = field(default=None, repr=False)

    @property
    def graph(self) -> Graph:
        """The graph below the roots."""
        if self._graph is None:
            self._graph = Graph(self.roots)
        return self._graph

    @property
    def value(self) -> float | None:
        """The loss, where the root is one number."""
        tensor = self.tensor
        if tensor is None or tensor._array.size != 1 or tensor._array.dtype.kind == "c":
            return None
        return float(tensor._array.reshape(-1)[0])


@dataclass
class Update:
    """A step of an optimizer."""

    optimizer: Any
    number: int  # of this optimizer's steps, from 1
    spot: Spot | None
    watched: bool

    @cached_property
    def params(self) -> list[Tensor]:
        """The parameters of all groups."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]


def is_zero(tensor: Tensor | None) -> bool:
    """Whether a gradient is absent or all zeros."""
    return tensor is None or not np.any(tensor._array)
