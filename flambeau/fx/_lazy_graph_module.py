"""Graph modules that generate their code when it is first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from . import graph_module
from ._compatibility import compatibility
from .codegen import PythonCode
from .graph import Graph
from .graph_module import GraphModule, make_graph_module

_is_forbidden = False


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    """Context in which traces return lazy graph modules (True) or plain ones (False)."""
    before = graph_module.default_class
    is_lazy = should_use and not _is_forbidden
    graph_module.default_class = _LazyGraphModule if is_lazy else GraphModule
    try:
        yield
    finally:
        graph_module.default_class = before


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def _force_skip_lazy_graph_module() -> Iterator[None]:
    """Context in which `_use_lazy_graph_module` has no effect."""
    global _is_forbidden
    before, _is_forbidden = _is_forbidden, True
    try:
        yield
    finally:
        _is_forbidden = before


@compatibility(is_backward_compatible=False)
def _get_graph_module_cls() -> type[GraphModule]:
    return graph_module.default_class


def _make_graph_module(
    root: Any, graph: Graph, class_name: str = "GraphModule",
    graph_module_cls: type[GraphModule] | None = None,
) -> GraphModule:
    return make_graph_module(root, graph, class_name, graph_module_cls)


@compatibility(is_backward_compatible=False)
class _LazyGraphModule(GraphModule):
    """A GraphModule whose `recompile` only notes that code must be generated.

    The first call, and every look at the code, generates it. Passes that change a graph many times
    save the time between.

    >>> from flambeau.fx._lazy_graph_module import _LazyGraphModule
    >>> gm = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> lazy = _LazyGraphModule.from_graphmodule(gm)
    >>> lazy._needs_recompile(), lazy(torch.ones(1)), lazy._needs_recompile()
    (True, tensor([2.]), False)
    """

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> GraphModule:
        """Return a lazy module with the same graph, or the module itself if it is lazy."""
        return gm if isinstance(gm, _LazyGraphModule) else _LazyGraphModule(gm, gm.graph)

    @staticmethod
    def force_recompile(gm: GraphModule) -> None:
        """Generate a lazy module's code, if that was put off."""
        gm.real_recompile()

    def real_recompile(self) -> None:
        """Generate the code, if that was put off."""
        if self._needs_recompile():
            self._real_recompile()

    @classmethod
    def _needs_recompile(cls) -> bool:
        return cls.forward is cls._lazy_forward

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        self.real_recompile()
        return self.forward(*args, **kwargs)

    forward = _lazy_forward

    def recompile(self) -> Any:
        """Put off generating the code."""
        type(self).forward = type(self)._lazy_forward  # each instance has a class of its own

    def _real_recompile(self) -> PythonCode:
        return super().recompile()

    _generate = _real_recompile

    @property
    def code(self) -> str:
        """The source of `forward`, generated now if that was put off."""
        self.real_recompile()
        return super().code

    def __str__(self) -> str:
        self.real_recompile()
        return super().__str__()
