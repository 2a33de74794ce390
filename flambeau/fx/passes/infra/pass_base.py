"""PassBase: a change of a GraphModule, with checks before and behind it."""

from __future__ import annotations

import abc
from collections import namedtuple
from typing import Any

from ..._compatibility import compatibility
from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


@compatibility(is_backward_compatible=False)
class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """The module behind a pass, and whether the pass changed it."""

    __slots__ = ()

    def __new__(cls, graph_module: Any, modified: bool) -> PassResult:
        return super().__new__(cls, graph_module, modified)


@compatibility(is_backward_compatible=False)
class PassBase(abc.ABC):
    """A pass: `call` changes the module, `requires` and `ensures` check it."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The change."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027  # may stay as it is
        """Called before the change, to check what it needs."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027  # may stay as it is
        """Called behind the change, to check what it promises."""
