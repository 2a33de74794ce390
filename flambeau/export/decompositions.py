"""run_decompositions: replace an exported graph's composite operators by core aten operators.

A rule takes the Decomposer, which adds a node when called, and a node's arguments. It returns the
node's replacement, or None to keep the operator.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..autograd.mode import no_grad
from ..fx.graph import Graph
from ..fx.node import Node, map_arg
from ..ops.core.aten import aten
from ..tensor.layout import contiguous_format
from ..tensor.tensor import Tensor
from .aten_calls import OVERLOADS
from .recorder import Recorder

__all__ = ["Decomposer", "default_decompositions"]

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}
_VALUE_META = ("val", "other_sizes")  # of a node: its replacements do not inherit them


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the operators with these names."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


class Decomposer:
    """Copies a graph operator by operator. Call it with an operator to add a node."""

    def __init__(self, values: dict[Node, Any], is_dynamic: bool,
                 table: Mapping[Any, Callable] | None) -> None:
        self.graph, self.is_dynamic = Graph(), is_dynamic
        table = default_decompositions() if table is None else table
        # The user's functions by operator, and the names of operators that rules decompose.
        self.table = {op: f for op, f in table.items() if f not in _FUNCTIONS}
        self.names = {op.overloadpacket.__name__ for op, f in table.items() if f in _FUNCTIONS}
        self.values = values  # of inputs, by node
        self.copies: dict[Node, Any] = {}
        self.node: Any = None  # the node being copied

    def copy(self, graph: Graph) -> Graph:
        """Return a copy of the graph in core operators."""
        with no_grad():
            for node in graph.nodes:
                self.node = node
                self.copies[node] = self._copy_node(node)
        return self.graph

    def _copy_node(self, node: Node) -> Any:
        if node.op != "call_function":
            copied = self.graph.node_copy(node, self.copies.__getitem__)
            copied.meta["val"] = self.values.get(node)
            return copied
        args: Any = map_arg(node.args, self.copies.__getitem__)
        kwargs: Any = map_arg(node.kwargs, self.copies.__getitem__)
        if node.target is operator.getitem and isinstance(args[0], list):
            return args[0][args[1]]
        if node.target in self.table:
            return self._record_decomposition(self.table[node.target], args, kwargs)
        packet = getattr(node.target, "overloadpacket", None)
        name = getattr(packet, "__name__", "")
        decompose = RULES.get(name) if name in self.names else None
        result = None if decompose is None else decompose(self, *args, **kwargs)
        return self(node.target, *args, **kwargs) if result is None else result

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Add a node and compute its value on the example inputs."""
        packet = getattr(target, "overloadpacket", None)
        node = self.graph.create_node("call_function", target, args, kwargs,
                                      None if packet is None else packet.__name__)
        node.meta.update({k: v for k, v in self.node.meta.items() if k not in _VALUE_META})
        node.meta["val"] = target(*value(list(args)), **value(dict(kwargs)))
        return node

    def apply(self, name: str, *args: Any) -> Any:
        """Apply another rule by name."""
        return RULES[name](self, *args)

    def _record_decomposition(self, function: Callable, args: Any, kwargs: Any) -> Any:
        """Record a user's decomposition and return the nodes of its results."""
        recorder = Recorder(self.graph, lambda tensor: self._refuse_unknown(function), False)
        map_arg((args, kwargs), lambda node: _register_argument(recorder, node))
        with recorder:
            result = function(*value(list(args)), **value(dict(kwargs)))
        if isinstance(result, tuple | list):
            return [recorder.node_of(part) for part in result]
        return recorder.node_of(result)

    def _refuse_unknown(self, function: Callable) -> Node:
        raise NotImplementedError(f"the decomposition {function.__name__} reads a tensor that is "
                                  "none of its arguments")

    def length(self, x: Node, dim: int) -> Any:
        """Return the length of a dimension: an int, or a node if any size is dynamic."""
        if not self.is_dynamic:
            return value(x).shape[dim]
        return self(aten.sym_size.int, x, dim % value(x).ndim)

    def lengths(self, x: Node) -> list[Any]:
        """Return the lengths of all dimensions."""
        return [self.length(x, i) for i in range(value(x).ndim)]

    def reshape(self, x: Node, size: list[Any]) -> Node:
        """Return a view of `x`; clone it first if its strides do not allow one."""
        try:
            value(x).view(value(size))
        except RuntimeError:
            x = self(aten.clone.default, x, memory_format=contiguous_format)
        return self(aten.view.default, x, size)


def value(node: Any) -> Any:
    """Return a node's value on the example inputs, mapping over containers."""
    if isinstance(node, Node):
        return node.meta["val"]
    if isinstance(node, list | tuple):
        container = list if isinstance(node, list) else tuple
        return container(value(part) for part in node)
    if isinstance(node, dict):
        return {key: value(part) for key, part in node.items()}
    return node


def _register_argument(recorder: Recorder, node: Node) -> Node:
    """Tell the recorder which tensor a node stands for."""
    if isinstance(value(node), Tensor):
        recorder.register(value(node), node)
    return node


# ------------------------------------------------------------------------------------ layers


@rule("linear")
def _linear(e: Decomposer, x: Node, weight: Node, bias: Node | None = None) -> Node:
    transposed = e(aten.permute.default, weight, [1, 0])
    rank, width = value(x).ndim, value(x).shape[-1]
    flat = x if rank == 2 else e.reshape(x, [-1, width])
    y = e(aten.mm.default, flat, transposed) if bias is None else \
        e(aten.addmm.default, bias, flat, transposed)
    if rank == 2:
        return y
    batch = [e.length(x, i) for i in range(rank - 1)]
    return e(aten.view.default, y, [*batch, value(weight).shape[0]])


@rule("conv1d", "conv2d", "conv3d")
def _convolution(e: Decomposer, x: Node, weight: Node, bias: Any = None, stride: Any = 1,
                 padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    rank = value(weight).ndim - 2
    if isinstance(padding, str):
        return None
    geometry = [[v] * rank if isinstance(v, int) else list(v) * (rank if len(v) == 1 else 1)
                for v in (stride, padding, dilation)]
    return e(aten.convolution.default, x, weight, bias, *geometry, False, [0] * rank, groups)


@rule("batch_norm")
def _batch_norm(e: Decomposer, x: Node, weight: Any, bias: Any, mean: Any, var: Any,
                training: bool, momentum: float, eps: float, cudnn: bool = False) -> Any:
    if training:
        return None
    y = e(aten._native_batch_norm_legit_no_training.default, x, weight, bias, mean, var,
          momentum, eps)
    return e(operator.getitem, y, 0)


@rule("layer_norm")
def _layer_norm(e: Decomposer, x: Node, shape: Any, weight: Any = None, bias: Any = None,
                eps: float = 1e-5, cudnn: bool = False) -> Node:
    y = e(aten.native_layer_norm.default, x, list(shape), weight, bias, eps)
    return e(operator.getitem, y, 0)


@rule("dropout", "feature_dropout", "alpha_dropout")
def _dropout(e: Decomposer, x: Node, p: float, train: bool) -> Any:
    return None if train else e(aten.clone.default, x)


@rule("max_pool2d")
def _max_pool(e: Decomposer, x: Node, *args: Any) -> Node:
    return e(operator.getitem, e(aten.max_pool2d_with_indices.default, x, *args), 0)


@rule("adaptive_avg_pool2d")
def _adaptive_pool(e: Decomposer, x: Node, size: Any) -> Node:
    if list(size) == [1, 1]:
        return e(aten.mean.dim, x, [-1, -2], True)
    return e(aten._adaptive_avg_pool2d.default, x, list(size))


# ------------------------------------------------------------------------------------ products


@rule("matmul")
def _matmul(e: Decomposer, a: Node, b: Node) -> Node:
    ranks = value(a).ndim, value(b).ndim
    if ranks == (2, 2):
        return e(aten.mm.default, a, b)
    if 1 in ranks:
        left = e(aten.unsqueeze.default, a, 0) if ranks[0] == 1 else a
        right = e(aten.unsqueeze.default, b, 1) if ranks[1] == 1 else b
        added_axes = [-2] * (ranks[0] == 1) + [-1] * (ranks[1] == 1)
        return e(aten.squeeze.dims, e.apply("matmul", left, right), added_axes)
    longer, shorter = (a, b) if ranks[0] >= ranks[1] else (b, a)
    count = max(ranks) - 2
    batch = []
    for i in range(-count - 2, -2):
        from_longer = value(longer).shape[i] != 1 or -i > value(shorter).ndim
        batch.append(e.length(longer if from_longer else shorter, i))
    left, right = (_expand_batch(e, x, batch) for x in (a, b))
    y = e(aten.bmm.default, left, right)
    if count == 1:
        return y
    return e(aten.view.default, y, [*batch, e.length(a, -2), e.length(b, -1)])


def _expand_batch(e: Decomposer, x: Node, batch: list[Any]) -> Node:
    """Expand matrices to a batch shape and flatten the batch axes into one."""
    rows, columns = e.length(x, -2), e.length(x, -1)
    expanded_shape = _list_example_sizes(batch) + tuple(value(x).shape[-2:])
    if tuple(value(x).shape) != expanded_shape:
        x = e(aten.expand.default, x, [*batch, rows, columns])
    return x if len(batch) == 1 else e.reshape(x, [-1, rows, columns])


def _list_example_sizes(sizes: list[Any]) -> tuple[int, ...]:
    """Return sizes with nodes replaced by their lengths on the example inputs."""
    return tuple(value(size) for size in sizes)


@rule("scaled_dot_product_attention")
def _attention(e: Decomposer, q: Node, k: Node, v: Node, attn_mask: Any = None,
               dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
               enable_gqa: bool = False) -> Any:
    if dropout_p or enable_gqa:
        return None
    mask = attn_mask
    factor = 1 / math.sqrt(value(q).shape[-1]) if scale is None else scale
    scores = e.apply("matmul", e(aten.mul.Tensor, q, factor), e.apply("transpose", k, -2, -1))
    if is_causal:
        ones = e(aten.ones_like.default, scores)
        mask = e(aten.gt.Scalar, e(aten.tril.default, ones), 0)
    if mask is not None and value(mask).dtype.name == "bool":
        lowest = e(aten.full_like.default, scores, -math.inf)
        scores = e(aten.where.self, mask, scores, lowest)
    elif mask is not None:
        scores = e(aten.add.Tensor, scores, mask)
    return e.apply("matmul", e.apply("softmax", scores, -1), v)


# ------------------------------------------------------------------------------------ shapes


@rule("flatten")
def _flatten(e: Decomposer, x: Node, start: int = 0, end: int = -1) -> Node:
    rank = value(x).ndim
    if rank == 0:
        return e(aten.view.default, x, [1])
    first, last = start % rank, end % rank
    if first == last:
        return x
    sizes = [e.length(x, i) for i in range(rank) if not first <= i <= last]
    sizes.insert(first, -1)
    return e.reshape(x, sizes)


@rule("reshape")
def _reshape(e: Decomposer, x: Node, shape: Any) -> Node:
    return e.reshape(x, list(shape))


@rule("contiguous")
def _contiguous(e: Decomposer, x: Node, **options: Any) -> Node:
    return x if value(x).is_contiguous() and not options else \
        e(aten.clone.default, x, **options)


@rule("transpose", "swapaxes", "swapdims")
def _transpose(e: Decomposer, x: Node, dim0: int, dim1: int) -> Node:
    order = list(range(value(x).ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return e(aten.permute.default, x, order)


@rule("t")
def _t(e: Decomposer, x: Node) -> Node:
    return e(aten.permute.default, x, list(range(value(x).ndim))[::-1])


@rule("expand_as")
def _expand_as(e: Decomposer, x: Node, other: Node) -> Node:
    return e(aten.expand.default, x, e.lengths(other))


@rule("chunk", "split")
def _split(e: Decomposer, x: Node, size: Any, dim: int = 0) -> Any:
    if e.is_dynamic:
        return None
    parts = getattr(value(x), str(e.node.target.overloadpacket.__name__))(size, dim)
    return e(aten.split_with_sizes.default, x, [part.shape[dim] for part in parts], dim)


@rule("unbind")
def _unbind(e: Decomposer, x: Node, dim: int = 0) -> Any:
    return [e(aten.select.int, x, dim, i) for i in range(value(x).shape[dim])]


@rule("stack")
def _stack(e: Decomposer, tensors: Any, dim: int = 0) -> Node:
    return e(aten.cat.default, [e(aten.unsqueeze.default, x, dim) for x in tensors], dim)


# ------------------------------------------------------------------------------------ pointwise


def _create_softmax_rule(name: str) -> Rule:
    """Return the rule of softmax or log_softmax."""
    def decompose(e: Decomposer, x: Node, dim: int, dtype: Any = None) -> Node:
        if dtype is not None:
            x = e(aten._to_copy.default, x, dtype=dtype)
        return e(getattr(aten, f"_{name}").default, x, dim, False)

    return decompose


RULES["softmax"] = _create_softmax_rule("softmax")
RULES["log_softmax"] = _create_softmax_rule("log_softmax")


@rule("silu")
def _silu(e: Decomposer, x: Node) -> Node:
    return e(aten.mul.Tensor, x, e(aten.sigmoid.default, x))


@rule("relu6")
def _relu6(e: Decomposer, x: Node) -> Node:
    return e(aten.hardtanh.default, x, 0.0, 6.0)


@rule("square")
def _square(e: Decomposer, x: Node) -> Node:
    return e(aten.pow.Tensor_Scalar, x, 2)


@rule("std")
def _std(e: Decomposer, x: Node, *args: Any, **kwargs: Any) -> Node:
    return e(aten.sqrt.default, e(aten.var.correction, x, *args, **kwargs))


@rule("relu_", "relu6_", "silu_", "hardtanh_", "hardswish_", "leaky_relu_", "elu_", "add_", "sub_",
      "mul_", "div_")
def _in_place(e: Decomposer, x: Node, *args: Any, **kwargs: Any) -> Any:
    """Use the out-of-place form if no other node or view sees the written tensor."""
    source: Any = e.node.args[0]
    if source.op != "call_function" or len(source.users) > 1 or value(x)._is_view():
        return None
    name, overload = e.node.target.__name__.split(".")
    functional = name.removesuffix("_")
    if functional in RULES:
        return e.apply(functional, x, *args)
    return e(getattr(getattr(aten, functional), overload), x, *args, **kwargs)


_FUNCTIONS = frozenset(RULES.values())


def default_decompositions() -> dict[Any, Callable]:
    """Return the table of operators that run_decompositions decomposes. Delete one to keep it.

    >>> table = torch.export.default_decompositions()
    >>> del table[torch.ops.aten.linear.default]
    >>> program = torch.export.export(nn.Linear(3, 2), (torch.ones(1, 3),))
    >>> [str(n.target) for n in program.run_decompositions(table).graph.nodes
    ...  if n.op == "call_function"]
    ['aten.linear.default']
    """
    return {getattr(getattr(aten, name), OVERLOADS.get(name.rstrip("_"), "default")): function
            for name, function in RULES.items()}
