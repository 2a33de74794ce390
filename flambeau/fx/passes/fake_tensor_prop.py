"""FakeTensorProp: run a graph on tensors without data and record the results in the nodes."""

from __future__ import annotations

from typing import Any

from ..._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from ...tensor.tensor import Tensor
from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


@compatibility(is_backward_compatible=False)
class FakeTensorProp(Interpreter):
    """Sets `meta["val"]` of each node to a fake tensor, or a number, without computing anything.

    Arguments:
        module: the graph module.
        mode: the FakeTensorMode to run in; a new one if None.

    >>> from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
    >>> gm = torch.fx.symbolic_trace(nn.Linear(3, 2))
    >>> FakeTensorProp(gm).propagate(torch.ones(5, 3)).shape
    torch.Size([5, 2])
    >>> gm.graph.output_node().args[0].meta["val"].shape
    torch.Size([5, 2])
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = mode if mode is not None else FakeTensorMode(allow_non_fake_inputs=True)

    def run_node(self, n: Node) -> Any:
        """Run a node and record its result."""
        result = super().run_node(n)
        value = map_aggregate(result, self._record)
        if value is not None:
            n.meta["val"] = value
        return result

    def _record(self, value: Any) -> Any:
        if isinstance(value, FakeTensor):
            return value.detach()
        if isinstance(value, Tensor):
            return self._mode.from_tensor(value)
        return value if isinstance(value, (bool, int, float)) else None

    def propagate(self, *args: Any) -> Any:
        """Run the graph on fake copies of the arguments; return its fake result."""
        fake = (self._mode.from_tensor(x) if isinstance(x, Tensor) else x for x in args)
        return self.propagate_dont_convert_inputs(*fake)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on arguments that are fake already."""
        with self._mode:
            return self.run(*args)
