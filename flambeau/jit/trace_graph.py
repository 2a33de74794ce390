"""torch.jit._get_trace_graph: what a module calls, as a graph of TorchScript's nodes.

Counters of FLOPs and activations walk such graphs: kinds of nodes, shapes of inputs and outputs,
scopes. A node is a call of a public function under the name that TorchScript has for it; what
PyTorch writes in Python from other functions (attention, recurrent layers) is a node for each of
its aten operators. The graph cannot be run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .._higher_order_ops.active_export import jit_tracing
from ..export.aten_functions import number_of_dtype
from ..fx.node import map_arg
from ..ops.registration.aten_schemas import find_overload
from ..overrides import TorchFunctionMode, resolve_name
from ..tensor.dtypes import dtype
from ..tensor.tensor import Tensor
from ..utils._python_dispatch import TorchDispatchMode
from .graphs.nodes import Graph, Node, Value, type_of_value

__all__ = ["Scopes", "convert_graph", "get_trace_graph"]

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
        self.inputs: list[Tensor] = []
        self._alive: list[Any] = []  # so that ids stay those of one object
        self._count = 0

    def write(self, kind: str, args: list[Any], result: Any) -> None:
        """Add a node."""
        node = self._add(kind, [self.find(x) for x in args])
        results = result if isinstance(result, (tuple, list)) else [result]
        node.results = [self._create(y, node) for y in results]

    def _add(self, kind: str, arguments: list[Value]) -> Node:
        node = Node(kind, self.graph)
        node.arguments, node.scope = arguments, "/".join(self._scopes.names)
        self.graph.body.append(node)
        return node

    def find(self, x: Any) -> Value:
        """Return the value of an argument: a node's output, an input of the graph, a list of
        those, or a constant."""
        if isinstance(x, Tensor):
            if id(x) not in self._values:
                parameters = self.graph.parameters
                parameters.results.append(self._create(x, parameters))
                self.inputs.append(x)
            return self._values[id(x)]
        if isinstance(x, (list, tuple)) and any(isinstance(v, Tensor) for v in x):
            return self.build("prim::ListConstruct", [self.find(v) for v in x], list(x))
        constant = number_of_dtype(x) if isinstance(x, dtype) else x
        value = self.build("prim::Constant", [], constant)
        value.node().constant = constant
        value.node().attributes = {} if constant is None else {"value": constant}
        return value

    def build(self, kind: str, arguments: list[Value], x: Any) -> Value:
        """Add a node with one result, which stands for `x`."""
        node = self._add(kind, arguments)
        node.results.append(self._create(x, node))
        return node.results[0]

    def _create(self, x: Any, node: Node) -> Value:
        self._count += 1
        value = Value(str(self._count), type_of_value(x), node)
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
    order = _ORDERS.get(name)
    if kwargs.get("inplace") and find_overload(f"{name}_", args, _drop_inplace(kwargs)):
        name, kwargs = f"{name}_", _drop_inplace(kwargs)
    schema = None if order is not None or name in _KINDS else find_overload(name, args, kwargs)
    if schema is not None:
        positional = [a.name for a in schema.arguments if not a.kwarg_only]
        passed = dict(zip(positional, args, strict=False)) | kwargs
        return name, [passed.get(a.name, a.default_value) for a in schema.arguments]
    bound = _bind(func, args, kwargs)
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


def _drop_inplace(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key != "inplace"}


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
    if _return_inputs_states:
        raise NotImplementedError(
            "torch.jit._get_trace_graph(_return_inputs_states=True) is not implemented in flambeau")
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
    writer.graph.results = [writer.find(y) for y in results if isinstance(y, Tensor)]
    if return_inputs:
        return writer.graph, result, tuple(writer.inputs)
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
                writer.graph.results = [writer.build(
                    "prim::TupleConstruct", list(map(writer.find, outputs)), tuple(outputs))]
            else:
                writer.graph.results = [writer.find(y) for y in outputs if isinstance(y, Tensor)]
    return writer.graph
