"""torch.jit._get_trace_graph: what a module calls, as a graph of TorchScript's nodes.

Counters of FLOPs and activations walk such graphs: kinds of nodes, shapes of inputs and outputs,
scopes. A node is a call of a public function under the name that TorchScript has for it; what
PyTorch writes in Python from other functions (attention, recurrent layers) is a node for each of
its aten operators. The graph cannot be run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from .._higher_order_ops.active_export import jit_tracing
from ..fx.node import map_arg
from ..overrides import TorchFunctionMode, resolve_name
from ..tensor.tensor import Tensor
from ..utils._python_dispatch import TorchDispatchMode

__all__ = ["Graph", "Node", "Scopes", "Value", "convert_graph", "get_trace_graph"]

# Functions that TorchScript traces as other operators, under the names of which they run.
_COMPOSITES = ("multi_head_attention_forward", "lstm", "gru", "rnn_tanh", "rnn_relu")
_KINDS = {
    "conv1d": "_convolution", "conv2d": "_convolution", "conv3d": "_convolution",
    "conv_transpose1d": "_convolution", "conv_transpose2d": "_convolution",
    "conv_transpose3d": "_convolution", "pad": "constant_pad_nd", "concatenate": "cat",
    "concat": "cat", "true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub",
    "expit": "sigmoid", "ndimension": "dim", "grid_sample": "grid_sampler",
    "convolution": "_convolution", "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm", "native_layer_norm": "layer_norm",
}
_UNSEEN = ("size", "dim", "ndimension", "numel", "stride", "is_floating_point", "is_contiguous",
           "__len__", "__get__", "__set__", "requires_grad_")
_OPERATORS = {"add": "add", "radd": "add", "iadd": "add_", "sub": "sub", "rsub": "rsub",
              "isub": "sub_", "mul": "mul", "rmul": "mul", "imul": "mul_", "truediv": "div",
              "rtruediv": "div", "itruediv": "div_", "matmul": "matmul", "rmatmul": "matmul",
              "pow": "pow", "neg": "neg", "getitem": "index", "setitem": "index_put_"}


class Type:
    """A value's type: a tensor with a shape, a number, a text, a list or None."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def kind(self) -> str:
        """Return TorchScript's name of the type's class."""
        names = {bool: "BoolType", int: "IntType", float: "FloatType", str: "StringType",
                 list: "ListType", tuple: "TupleType", type(None): "NoneType"}
        return "TensorType" if isinstance(self._value, Tensor) else names.get(
            type(self._value), "AnyType")

    def sizes(self) -> list[int] | None:
        """Return a tensor's shape."""
        return list(self._value.shape) if isinstance(self._value, Tensor) else None

    def dim(self) -> int | None:
        """Return a tensor's rank."""
        return self._value.dim() if isinstance(self._value, Tensor) else None

    def dtype(self) -> Any:
        """Return a tensor's dtype."""
        return getattr(self._value, "dtype", None)

    def scalarType(self) -> str | None:  # PyTorch's name
        """Return the name of a tensor's dtype, such as Float."""
        return self._value.type().split(".")[-1].removesuffix("Tensor") \
            if isinstance(self._value, Tensor) else None

    def __str__(self) -> str:
        if isinstance(self._value, Tensor):
            shape = ", ".join(map(str, self._value.shape))
            return f"{self.scalarType()}({shape})"
        return self.kind().removesuffix("Type").lower()


class Value:
    """An input or output of nodes."""

    def __init__(self, value: Any, node: Node, name: str) -> None:
        self._value, self._node, self._name = value, node, name

    def type(self) -> Type:
        """Return the type."""
        return Type(self._value)

    def node(self) -> Node:
        """Return the node that computes the value."""
        return self._node

    def debugName(self) -> str:  # PyTorch's name
        """Return the value's name in the graph."""
        return self._name

    def isCompleteTensor(self) -> bool:  # PyTorch's name
        """Return whether it is a tensor whose shape is known."""
        return isinstance(self._value, Tensor)

    def toIValue(self) -> Any:  # PyTorch's name
        """Return a constant's value, or None."""
        return self._value if self._node.kind() == "prim::Constant" else None

    def __repr__(self) -> str:
        return f"{self._name} : {self.type()}"


class Node:
    """One operator."""

    def __init__(self, kind: str, scope: str) -> None:
        self._kind, self._scope = kind, scope
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []

    def kind(self) -> str:
        """Return the operator's name, such as aten::linear."""
        return self._kind

    def scopeName(self) -> str:  # PyTorch's name
        """Return the names that `push_scope` was given, joined by slashes."""
        return self._scope

    def inputs(self) -> Iterator[Value]:
        """Return the inputs in the operator's order."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """Return the outputs."""
        return iter(self._outputs)

    def output(self) -> Value:
        """Return the only output."""
        (value,) = self._outputs
        return value

    def __repr__(self) -> str:
        outputs = ", ".join(map(repr, self._outputs))
        inputs = ", ".join("%" + value.debugName() for value in self._inputs)
        return f"{outputs} = {self._kind}({inputs}), scope: {self._scope}"


class Graph:
    """The nodes of a traced call, in order."""

    def __init__(self) -> None:
        self._parameters = Node("prim::Param", "")
        self._nodes: list[Node] = []
        self._results: list[Value] = []

    def nodes(self) -> Iterator[Node]:
        """Return the nodes."""
        return iter(self._nodes)

    def inputs(self) -> Iterator[Value]:
        """Return the tensors that no node computes: arguments, parameters and buffers."""
        return self._parameters.outputs()

    def outputs(self) -> Iterator[Value]:
        """Return what the call returned."""
        return iter(self._results)

    def __str__(self) -> str:
        head = ", ".join(f"%{value!r}" for value in self.inputs())
        body = "".join(f"  %{node!r}\n" for node in self._nodes)
        results = ", ".join("%" + value.debugName() for value in self._results)
        return f"graph({head}):\n{body}  return ({results})\n"


class Scopes:
    """Names of the modules that run, which hooks push and pop."""

    current: Scopes | None = None

    def __init__(self) -> None:
        self.names: list[str] = []

    def push_scope(self, name: str) -> None:
        """Enter a scope."""
        self.names.append(name)

    def pop_scope(self) -> None:
        """Leave a scope."""
        self.names.pop()


class _Writer:
    """Writes nodes of calls."""

    def __init__(self, scopes: Scopes) -> None:
        self.graph, self._scopes = Graph(), scopes
        self._values: dict[int, Value] = {}  # by id of the tensor
        self._alive: list[Any] = []  # so that ids stay those of one tensor
        self._count = 0

    def write(self, kind: str, args: list[Any], result: Any) -> None:
        """Add a node."""
        node = Node(kind, "/".join(self._scopes.names))
        node._inputs = [self.find(x) for x in args]
        results = result if isinstance(result, (tuple, list)) else [result]
        node._outputs = [self._create(y, node) for y in results]
        self.graph._nodes.append(node)

    def find(self, x: Any) -> Value:
        """Return the value of an argument: a node's output, an input of the graph, a list of
        those, or a constant."""
        if isinstance(x, Tensor):
            if id(x) not in self._values:
                parameters = self.graph._parameters
                parameters._outputs.append(self._create(x, parameters))
            return self._values[id(x)]
        is_list = isinstance(x, (list, tuple)) and any(isinstance(v, Tensor) for v in x)
        node = Node("prim::ListConstruct" if is_list else "prim::Constant",
                    "/".join(self._scopes.names))
        if is_list:
            node._inputs = [self.find(v) for v in x]
        value = self._create(x, node)
        node._outputs.append(value)
        self.graph._nodes.append(node)
        return value

    def _create(self, x: Any, node: Node) -> Value:
        self._count += 1
        value = Value(x, node, str(self._count))
        if isinstance(x, Tensor):
            self._values[id(x)] = value
            self._alive.append(x)
        return value


class _Operators(TorchDispatchMode):
    """Writes a node for each aten operator."""

    def __init__(self, writer: _Writer) -> None:
        super().__init__()
        self._writer = writer

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self._writer.write(f"aten::{_KINDS.get(name, name)}", [*args, *(kwargs or {}).values()],
                           result)
        return result


class _Functions(TorchFunctionMode):
    """Writes a node for each public function."""

    def __init__(self, writer: _Writer) -> None:
        super().__init__()
        self._writer = writer

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = str(resolve_name(func) or getattr(func, "__name__", "")).rpartition(".")[2]
        if name in _COMPOSITES:
            with _Operators(self._writer):
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        returns_tensor = isinstance(result, Tensor) or (
            isinstance(result, (tuple, list)) and any(isinstance(y, Tensor) for y in result))
        if name not in _UNSEEN and returns_tensor:
            kind, values = _translate(name, func, args, kwargs, result)
            self._writer.write(f"aten::{kind}", values, result)
        return result


def _translate(
    name: str, func: Callable, args: tuple, kwargs: dict[str, Any], result: Any
) -> tuple[str, list[Any]]:
    """Return TorchScript's name of a function, and its arguments in the order of its schema."""
    if name.startswith("__"):
        plain = name.strip("_")
        return _OPERATORS.get(plain, plain), [*args, *kwargs.values()]
    bound = _bind(func, args, kwargs)
    order = _ORDERS.get(name)
    if name == "interpolate":
        mode = bound.get("mode", "nearest")
        rank = bound["input"].dim() - 2
        names = {"nearest": f"nearest{rank}d", "bicubic": "bicubic2d", "linear": "linear1d",
                 "bilinear": "bilinear2d", "trilinear": "trilinear3d"}
        return f"upsample_{names.get(mode, mode)}", list(bound.values())
    if name == "einsum":
        return name, [args[0], list(args[1] if len(args) == 2 and isinstance(args[1], (
            list, tuple)) else args[1:])]
    values = list(bound.values()) if order is None else [
        bound.get(key) if isinstance(key, str) else key[0] for key in order]
    kind = _KINDS.get(name, name)
    if kwargs.get("inplace") or (bound.get("inplace") is True):
        kind += "_"
    return kind, values


def _bind(func: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name; unnamed ones by their position."""
    try:
        bound = inspect.signature(func).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {**{str(i): x for i, x in enumerate(args)}, **kwargs}
    named = set(bound.arguments)
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name in named
            or bound.signature.parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY}


_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation")
_SETTINGS = ((False,),) * 4  # of cuDNN
_NORM = ("input", "weight", "bias", "running_mean", "running_var")
_ORDERS: dict[str, tuple[Any, ...]] = {  # a name, or (constant,)
    **{f"conv{n}d": (*_CONVOLUTION, (False,), (0,), "groups", *_SETTINGS) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": (*_CONVOLUTION, (True,), "output_padding", "groups", *_SETTINGS)
       for n in (1, 2, 3)},
    "batch_norm": (*_NORM, "training", "momentum", "eps", (False,)),
    "instance_norm": (*_NORM, "use_input_stats", "momentum", "eps", (False,)),
    "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps", (False,)),
    "group_norm": ("input", "num_groups", "weight", "bias", "eps", (False,)),
}


def _note_nothing(name: str) -> None:
    """Values may be read: the graph is not run."""


def get_trace_graph(
    f: Any, args: Any = (), kwargs: dict[str, Any] | None = None, strict: bool = True,
    _force_outplace: bool = False, return_inputs: bool = False, _return_inputs_states: bool = False,
) -> Any:
    """Call a module or function, and return the graph of its call and the result.

    >>> layer = torch.nn.Linear(2, 3)
    >>> graph, y = torch.jit._get_trace_graph(layer, (torch.ones(1, 2),))
    >>> [node.kind() for node in graph.nodes()], list(graph.outputs())[0].type().sizes()
    (['aten::linear'], [1, 3])
    """
    if return_inputs or _return_inputs_states:
        raise NotImplementedError(
            "torch.jit._get_trace_graph(return_inputs=True) is not implemented in flambeau")
    args = args if isinstance(args, tuple) else (args,)
    scopes, before = Scopes(), Scopes.current
    writer = _Writer(scopes)
    for x in args:
        if isinstance(x, Tensor):
            writer.find(x)
    Scopes.current = scopes
    try:
        with jit_tracing(_note_nothing), _Functions(writer):
            result = f(*args, **(kwargs or {}))
    finally:
        Scopes.current = before
    results = result if isinstance(result, (tuple, list)) else [result]
    writer.graph._results = [writer.find(y) for y in results if isinstance(y, Tensor)]
    return writer.graph, result


def convert_graph(graph: Any) -> Graph:
    """Return a graph of torch.fx, whose nodes call aten operators, as TorchScript's."""
    writer = _Writer(Scopes())
    results = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder":
            results[node] = value
            if isinstance(value, Tensor):
                writer.find(value)._name = node.name
        elif node.op == "call_function":
            args = map_arg([*node.args, *node.kwargs.values()], results.get)
            results[node] = value
            packet = getattr(node.target, "overloadpacket", node.target)
            name = getattr(packet, "__name__", str(packet))
            writer.write(f"aten::{_KINDS.get(name, name)}", args, value)
        elif node.op == "output":
            outputs = map_arg(node.args[0], results.get)
            outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
            if len(outputs) > 1 and all(isinstance(y, Tensor) for y in outputs):
                writer.write("prim::TupleConstruct", list(outputs), tuple(outputs))
                writer.graph._nodes[-1]._outputs = [
                    writer._create(outputs, writer.graph._nodes[-1])]
                writer.graph._results = writer.graph._nodes[-1]._outputs
            else:
                writer.graph._results = [writer.find(y) for y in outputs if isinstance(y, Tensor)]
    return writer.graph
