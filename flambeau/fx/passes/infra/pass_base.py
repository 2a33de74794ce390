"""PassBase: a GraphModule transformation with checks before and after it."""

from __future__ import annotations

import abc
from collections import namedtuple
from typing import Any

from ..._compatibility import compatibility
from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


@compatibility(is_backward_compatible=False)
class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """The module a pass returned, and whether the pass changed it."""

    __slots__ = ()

    def __new__(cls, graph_module: Any, modified: bool) -> PassResult:
        return super().__new__(cls, graph_module, modified)


@compatibility(is_backward_compatible=False)
class PassBase(abc.ABC):
    """Base class of passes: `call` transforms the module, `requires` and `ensures` check it."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Transform the module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027  # optional hook
        """Check preconditions; called before the pass."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027  # optional hook
        """Check postconditions; called after the pass."""
