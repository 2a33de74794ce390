"""Proxy: stands for a value during tracing and records operations on it as nodes."""

from __future__ import annotations

import bisect
import collections
import copy
import dis
import enum
import inspect
import operator
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any, NoReturn

from ..native.foundation.public_names import class_of
from ..native.foundation.user_frames import find_user_frame, is_own_file
from ..nn.parameter import Parameter
from ..ops.core import aten
from ..ops.interception import torch_function
from ..tensor.devices import device
from ..tensor.dtypes import dtype
from ..tensor.layout import layout, memory_format
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from . import traceback as fx_traceback
from ._compatibility import compatibility
from .code_writer import magic_methods, reflectable_magic_methods
from .graph import Graph
from .node import Argument, Node, Target, base_types, map_aggregate, map_arg
from .qualified_names import method_name, qualified_name
from .trace_errors import TraceError, explain

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError",
           "TracerBase"]

# Types that arguments store unchanged.
_PLAIN = (*base_types, dtype, device, memory_format, layout, Tensor, aten.Overload, enum.Enum,
          type(None), type(...))
_COPY_META_FIELDS = (
    "nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute", "ac_graph_id",
    "has_backward_hook", "from_node", "quantization_tag", "_numeric_debug_handle", "custom",
    "partitioner_tag",
)


@compatibility(is_backward_compatible=False)
class Scope:
    """The path and class of the module whose forward is running."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


@compatibility(is_backward_compatible=False)
class ScopeContextManager:
    """Context that switches to another scope and restores the previous one on exit."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._prev_scope, self._scope = copy.copy(scope), scope
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *args: object) -> None:
        self._scope.module_path = self._prev_scope.module_path
        self._scope.module_type = self._prev_scope.module_type


@compatibility(is_backward_compatible=True)
class TracerBase:
    """Turns operations on proxies into nodes; subclasses decide about special cases."""

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: collections.OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(
        self, kind: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument],
        name: str | None = None, type_expr: Any = None,
    ) -> Node:
        """Add a node and record its origin (scope, module stack, stack trace)."""
        if kind == "call_function" and self.check_mutable_operations:
            from .operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            current = fx_traceback.get_current_meta()
            if current.get("stack_trace"):
                node.stack_trace = current["stack_trace"]
            for field in _COPY_META_FIELDS:
                if field in current:
                    node.meta[field] = copy.copy(current[field])
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            frames = self._filter_traceback_frames(
                traceback.StackSummary.extract(reversed(list(traceback.walk_stack(None))))
            )
            if frames:
                node.stack_trace = "".join(frames.format()).strip()
        return node

    def _filter_traceback_frames(self, summary: traceback.StackSummary) -> traceback.StackSummary:
        """Keep the user's frames, starting at the first `forward`."""
        frames = list(summary)
        if self._record_forward_stack_traces_only:
            chosen = [f for f in frames if f.name == "forward"]
        else:
            first = next((i for i, f in enumerate(frames) if f.name == "forward"), len(frames))
            chosen = frames[first:]
        return traceback.StackSummary.from_list([f for f in chosen if not is_own_file(f.filename)])

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy for a node's result."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        name: str | None = None, type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a node whose arguments may contain proxies; return a proxy for its result."""
        result: Any = self.create_arg(args)
        words: Any = self.create_arg(kwargs)
        node = self.create_node(kind, target, result, words, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def _find_user_frame(self) -> FrameType | None:
        return find_user_frame()

    def create_arg(self, a: Any) -> Argument:
        """Convert an argument to the form nodes store: proxies become nodes, also in containers.

        NotImplementedError for a value that a graph cannot hold.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts: list[Any] = [self.create_arg(x) for x in a]
            return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {self._create_key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, (slice, range)):
            bounds: Any = [self.create_arg(x) for x in (a.start, a.stop, a.step)]
            return type(a)(*bounds)
        if isinstance(a, _PLAIN):
            return a
        if is_dataclass(a) and not isinstance(a, type):
            parts_by_name = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", a.__class__, (), parts_by_name)
        error = NotImplementedError(f"argument of type: {class_of(a)}")
        explain(error, "A graph holds numbers, strings, tensors and containers of them. Make the "
                       "function that takes this value a leaf with torch.fx.wrap.")
        raise error

    def _create_key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        result = self.create_arg(key)
        map_arg(result, _no_nodes_error)
        return result

    def to_bool(self, obj: Proxy) -> bool:
        """Raise TraceError; called when control flow depends on a proxy."""
        error = TraceError("symbolically traced variables cannot be used as inputs to control flow")
        explain(error, "Pass what the branch depends on in `concrete_args`, put the branch into a "
                       "function marked with torch.fx.wrap, or choose with torch.where.")
        raise error

    def iter(self, obj: Proxy) -> Iterator:
        """Raise TraceError; called when a proxy is iterated."""
        error = TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )
        explain(error, "Loop over `range` of a number that the module knows and index the value, "
                       "or put the loop into a function marked with torch.fx.wrap.")
        raise error

    def keys(self, obj: Proxy) -> Any:
        """Record `obj.keys()`; also called for `**obj`."""
        return Attribute(obj, "keys")()


def _no_nodes_error(arg: Any) -> NoReturn:
    raise RuntimeError(
        f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {arg}"
    )


@compatibility(is_backward_compatible=True)
class GraphAppendingTracer(TracerBase):
    """Appends nodes to an existing graph."""

    def __init__(self, graph: Graph) -> None:
        torch_function.meet(Proxy)  # outside a trace, nothing else enables dispatch to proxies
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


@compatibility(is_backward_compatible=False)
def assert_fn(x: object) -> None:
    """Raise AssertionError unless `x` is true."""
    if not x:
        raise AssertionError("Assertion failed")


def _find_instruction(frame: FrameType | None) -> tuple[list[dis.Instruction], int]:
    """Return a frame's instructions and the index of the current one."""
    if frame is None:
        raise AssertionError("frame.f_back is None")
    code = list(dis.get_instructions(frame.f_code))
    return code, bisect.bisect_left(code, frame.f_lasti, key=lambda x: x.offset)


@compatibility(is_backward_compatible=True)
class Proxy:
    """Stands for a node's result; operators, methods and torch functions on it add nodes.

    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> torch.relu(x) + 1
    Proxy(add)
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        parts = {}
        for name, value in self.__dict__.items():
            try:
                parts[name] = copy.deepcopy(value, memo)
            except Exception:  # share what cannot be deep-copied
                parts[name] = copy.copy(value)
        copied = Proxy(parts["node"], parts["tracer"])
        copied.__dict__.update(parts)
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        code, position = _find_instruction(sys._getframe(1))
        if code[position].opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(code[position].argval))
        return self.tracer.iter(self)

    def __getitem__(self, item: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.getitem, (self, item), {})

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_in_assertion(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Return the keys, as decided by the tracer."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        error = RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )
        explain(error, "Or ask for `x.shape[0]`, which is recorded.")
        raise error

    @classmethod
    def __torch_function__(
        cls, orig_method: Callable[..., Any], types: Any, args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def note(a: Any) -> None:
            if isinstance(a, cls):
                tracers[a.tracer] = None

        map_aggregate((args, kwargs), note)
        if len(tracers) > 1:
            raise RuntimeError(f"Found multiple different tracers {list(tracers)} while trying to "
                               f"trace operations {orig_method}")
        tracer = next(iter(tracers))
        method = method_name(orig_method)
        if method is None and torch_function.STATE.operator and not isinstance(args[0], Proxy):
            method = orig_method.__name__  # `tensor + proxy` calls Tensor's method
        if method is not None:
            return tracer.create_proxy("call_method", method, args, kwargs)
        name = tracer.graph._target_to_str(orig_method)
        args, kwargs = _list_arguments(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


def _list_arguments(function: Any, args: tuple, kwargs: dict[str, Any]
                    ) -> tuple[tuple, dict[str, Any]]:
    """Complete a nn.functional call with all its arguments, as PyTorch's graphs show it.

    Required arguments are passed by position, those with a default by keyword.
    """
    if not qualified_name(function).startswith("torch.nn.functional."):
        return args, kwargs
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the call itself will report the error
        return args, kwargs
    parameters = [p for p in signature.parameters.values() if p.name != "out"]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY) for p in parameters):
        return args, kwargs
    bound.apply_defaults()
    values = bound.arguments
    return (
        tuple(values[p.name] for p in parameters if p.default is p.empty),
        {p.name: values[p.name] for p in parameters if p.default is not p.empty},
    )


def _is_in_assertion(frame: FrameType) -> bool:
    """Return whether a frame is at the jump of an `assert` statement."""
    code, position = _find_instruction(frame)
    if not code[position].opname.endswith("POP_JUMP_IF_TRUE") and \
            code[position].opname not in ("POP_JUMP_FORWARD_IF_TRUE", "TO_BOOL"):
        return False
    behind = next((x for x in code[position + 1 :] if not x.opname.startswith("POP_JUMP")
                   and x.opname not in ("NOT_TAKEN", "CACHE")), None)
    return behind is not None and (
        behind.opname == "LOAD_ASSERTION_ERROR" or behind.argval == "AssertionError"
        or behind.argval is AssertionError
    )


@compatibility(is_backward_compatible=True)
class Attribute(Proxy):
    """An attribute of a proxy: becomes a node when used as a value, but not when called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute; created on first access."""
        if self._node is None:
            read = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = read.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


@compatibility(is_backward_compatible=False)
class ParameterProxy(Proxy):
    """Stands for a parameter; its shape is known during tracing."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"Expected Parameter, got {class_of(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> Size:
        """The parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """Return the parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """Return the parameter's number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """Return the parameter's number of elements."""
        return self.param.nelement()


def _build_operator_method(name: str, reflected: bool) -> Callable[..., Proxy]:
    def record(self: Proxy, *others: Any) -> Proxy:
        args = (*others, self) if reflected else (self, *others)
        target: Any = getattr(operator, name)
        return self.tracer.create_proxy("call_function", target, args, {})

    return record


for _name in magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", _build_operator_method(_name, False))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__r{_name.strip('_')}__", _build_operator_method(_name, True))
