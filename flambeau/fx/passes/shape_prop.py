"""ShapeProp: run a graph on example inputs and record shapes and dtypes in the nodes' meta."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from ...tensor.dtypes import dtype
from ...tensor.layout import channels_last, channels_last_3d, contiguous_format, memory_format
from ...tensor.size import Size
from ...tensor.tensor import Tensor
from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


@compatibility(is_backward_compatible=True)
class TensorMetadata(NamedTuple):
    """Metadata recorded for a tensor."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Return the metadata of a tensor."""
    form = None
    if include_contiguity:
        formats = [contiguous_format]
        formats += {4: [channels_last], 5: [channels_last_3d]}.get(result.dim(), [])
        form = next((f for f in formats if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), form,
                          result.is_quantized, {})


@compatibility(is_backward_compatible=True)
class ShapeProp(Interpreter):
    """Runs a graph and sets `tensor_meta` and `type` in each node's meta.

    >>> gm = torch.fx.symbolic_trace(nn.Linear(3, 2))
    >>> from flambeau.fx.passes.shape_prop import ShapeProp
    >>> _ = ShapeProp(gm).propagate(torch.ones(5, 3))
    >>> gm.graph.output_node().meta["tensor_meta"].shape
    torch.Size([5, 2])
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """Run a node, record its metadata, and return its value."""
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        has_tensor = False

        def note(x: Any) -> Any:
            nonlocal has_tensor
            if not isinstance(x, Tensor):
                return x
            has_tensor = True
            return _extract_tensor_metadata(x)

        meta = map_aggregate(result, note)
        if has_tensor:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these inputs and return its result."""
        if self.fake_mode is not None:
            args = tuple(self.fake_mode.from_tensor(a) if isinstance(a, Tensor) else a
                         for a in args)
        return super().run(*args)
