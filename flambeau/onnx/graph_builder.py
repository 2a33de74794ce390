"""GraphBuilder: builds the nodes and constants of an ONNX graph from an exported program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..fx.node import Node
from ..tensor.tensor import Tensor

__all__ = ["DTYPES", "GraphBuilder"]

# ONNX's code of each dtype.
DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
          "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14,
          "complex128": 15, "bfloat16": 16}


def short(kind: Any) -> str:
    """Return a dtype's name without `torch.`."""
    return str(kind).removeprefix("torch.")


class GraphBuilder:
    """Collects the parts of an ONNX graph. Values are identified by name."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names: dict[Node, Any] = {}
        self.fixed: set[Node] = set()  # nodes that depend on no input: constants of the model
        self.used: set[str] = set()
        self.constants: dict[Any, str] = {}
        self.opsets: dict[str, int] = {}  # versions of the domains that translations use
        self.current = ""
        self.module: Any = None  # whose graph is being converted: the program's, or a subgraph's
        self.is_dynamic = False  # whether any size varies between calls
        self.convert: Any = None  # adds a node of a subgraph

    # ---------------------------------------------------------------- values

    def unique(self, name: str) -> str:
        """Return an unused name."""
        candidate, i = name, 0
        while candidate in self.used:
            i += 1
            candidate = f"{name}_{i}"
        self.used.add(candidate)
        return candidate

    def constant(self, value: Any, kind: str) -> str:
        """Return the name of a constant of a dtype; equal ones are shared."""
        array = np.asarray(value, kind)
        key = (kind, array.shape, array.tobytes())
        if key not in self.constants:
            name = self.unique("const")
            self.initializers.append(self.numpy_helper.from_array(array, name))
            self.constants[key] = name
        return self.constants[key]

    def value(self, x: Any, kind: Any = None) -> str:
        """Return the name of a value; numbers become constants of the dtype `kind`."""
        if isinstance(x, Node):
            return self.name(x)
        return self.constant(x, short(kind) if kind is not None else _kind_of(x))

    def name(self, x: Node) -> Any:
        """Return the name of a node's value."""
        if x not in self.names and x in self.fixed:
            value = x.meta["val"]
            self.names[x] = self.constant(value.detach().numpy(), short(value.dtype))
        return self.names[x]

    def cast(self, x: Any, kind: Any) -> str:
        """Cast a value to a dtype."""
        if not isinstance(x, Node):
            return self.value(x, kind)
        value = x.meta["val"]
        if isinstance(value, Tensor) and value.dtype == kind:
            return self.name(x)
        return self.op("Cast", self.name(x), to=DTYPES[short(kind)])

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add an operator; return the name of its result, or a tuple of names."""
        output_names = tuple(self.unique(f"{self.current}_{kind.lower()}" if self.current else kind)
                             for _ in range(outputs))
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(self.helper.make_node(kind, list(inputs), list(output_names),
                                                name=self.unique(f"node_{kind}"), **attributes))
        return output_names[0] if outputs == 1 else output_names

    # ---------------------------------------------------------------- shapes

    def sizes(self, lengths: Sequence[Any]) -> str:
        """Return a list of lengths, some of which may be computed, as a vector."""
        if not any(isinstance(n, Node) for n in lengths):
            return self.constant([int(n) for n in lengths], "int64")
        parts = [self.vector(n) for n in lengths]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def vector(self, n: Any) -> str:
        """Return one length as a vector of one element."""
        if isinstance(n, Node):
            return self.op("Reshape", self.name(n), self.constant([1], "int64"))
        return self.constant([int(n)], "int64")

    @staticmethod
    def tensor(x: Any) -> Tensor:
        """Return a node's value for the example inputs."""
        return x.meta["val"] if isinstance(x, Node) else x

    def rank(self, x: Node) -> int:
        """Return a value's number of dimensions."""
        return self.tensor(x).ndim

    def axis(self, x: Node, dim: int) -> int:
        """Return a dimension as a nonnegative index."""
        return dim % max(self.rank(x), 1)


def _kind_of(x: Any) -> str:
    first = x
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    return "bool" if isinstance(first, bool) else "int64" if isinstance(first, int) else "float32"
