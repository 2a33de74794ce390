"""MetaTracer: trace with shapes, so that control flow may depend on them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...native.foundation.user_frames import warn
from ...nn.module import Module
from ...tensor.tensor import Tensor
from .._symbolic_trace import Tracer
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_aggregate
from ..patcher import Patcher
from ..proxy import Attribute, Proxy

__all__ = ["MetaAttribute", "MetaDeviceAttribute", "MetaProxy", "MetaTracer",
           "gen_constructor_wrapper", "manual_meta_overrides", "proxys_to_metas", "symbolic_trace"]

# By function or class of modules: what computes the result on tensors without data instead.
manual_meta_overrides: dict[Any, Callable[..., Any]] = {}


def gen_constructor_wrapper(target: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """Return a function that records calls of `target` with proxies, and `target`."""
    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        proxies: list[Proxy] = []
        map_aggregate((args, kwargs), lambda x: proxies.append(x) if isinstance(x, Proxy) else x)
        if not proxies:
            return target(*args, **kwargs)
        return proxies[0].tracer.create_proxy("call_function", target, args, kwargs)

    return wrapper, target


class MetaProxy(Proxy):
    """A proxy that knows the shape, dtype and number of axes of its tensor."""

    _tensor_meta: Any

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        """Set the tensor on the meta device that this proxy stands for."""
        self.__dict__["_tensor_meta"] = tensor_meta

    def _read_known(self, name: str) -> Any:
        """Return an attribute of the tensor, or a proxy of it."""
        meta = self.__dict__.get("_tensor_meta")
        if meta is not None:
            return getattr(meta, name)
        return self.tracer.create_proxy("call_function", getattr, (self, name), {})

    def size(self, dim: int | None = None) -> Any:
        """Return the tensor's shape or one length."""
        meta = self.__dict__.get("_tensor_meta")
        if meta is not None:
            return meta.size() if dim is None else meta.size(dim)
        arguments = (self,) if dim is None else (self, dim)
        return self.tracer.create_proxy("call_method", "size", arguments, {})

    def dim(self) -> Any:
        """Return the tensor's number of axes."""
        meta = self.__dict__.get("_tensor_meta")
        if meta is not None:
            return meta.dim()
        return self.tracer.create_proxy("call_method", "dim", (self,), {})

    @property
    def shape(self) -> Any:
        """The tensor's shape."""
        return self._read_known("shape")

    @property
    def dtype(self) -> Any:
        """The tensor's dtype."""
        return self._read_known("dtype")

    @property
    def device(self) -> MetaDeviceAttribute:
        """The device, as a proxy: the tensors of a trace are on the meta device."""
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, k: str) -> Any:
        if k == "_tensor_meta":
            raise AttributeError(k)
        return MetaAttribute(self, k)


class MetaAttribute(Attribute, MetaProxy):
    """An attribute of a proxy; calling it records a method call."""


class MetaDeviceAttribute(MetaAttribute):
    """The device of a proxy, "meta" while shapes are computed."""


def proxys_to_metas(v: Any) -> Any:
    """Return the tensor on the meta device behind a proxy; anything else as it is."""
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if not isinstance(v, Proxy):
        return v
    if not isinstance(v, MetaProxy):
        raise AssertionError(f"Expected MetaProxy but got {type(v)}")
    if "_tensor_meta" not in v.__dict__:
        raise AssertionError("MetaProxy does not have an associated meta")
    return v._tensor_meta


class MetaTracer(Tracer):
    """A tracer that also runs each operation on tensors without data."""

    allow_insert_stateless_mods = True
    _TORCH_METHODS_TO_PATCH = ("arange", "zeros", "ones", "full_like", "eye")

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any,
                     **options: Any) -> Any:
        """Record an operation, and compute its result's shape; a warning if that fails."""
        proxy: Any = super().create_proxy(kind, target, args, kwargs, *rest, **options)
        if kind == "placeholder":
            if target in self.meta_args:
                proxy.install_tensor_meta(self.meta_args[target])
            return proxy
        if kind == "output":
            return proxy
        try:
            proxy.install_tensor_meta(self._compute(kind, target, args, kwargs))
        except Exception as error:  # shapes are optional: the trace continues without them
            warn(f"Could not compute metadata for {kind} target {target}: {error}")
        return proxy

    def _compute(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """Return an operation's result on the meta device."""
        self._is_computing = True
        try:
            if kind == "get_attr":
                value = self.root
                for name in str(target).split("."):
                    value = getattr(value, name)
                return value.to("meta")
            positional: Any = map_aggregate(args, proxys_to_metas)
            named: Any = map_aggregate(kwargs, proxys_to_metas)
            if target in self.orig_fns and "device" in named:
                named = {**named, "device": "meta"}
            if kind == "call_method":
                return getattr(positional[0], target)(*positional[1:], **named)
            if kind == "call_function":
                return manual_meta_overrides.get(target, target)(*positional, **named)
            module = self.root.get_submodule(target)
            override = manual_meta_overrides.get(type(module))
            if override:
                return override(module, *positional, **named)
            return self._run_without_data(module)(*positional, **named)
        finally:
            self._is_computing = False

    @staticmethod
    def _run_without_data(module: Module) -> Callable[..., Any]:
        """Return a module's forward with its parameters and buffers on the meta device."""
        from ...func import functional_call

        members = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        meta = {name: value.detach().to("meta") for name, value in members.items()}
        return lambda *args, **kwargs: functional_call(module, meta, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return an attribute's proxy, or its value while a shape is computed."""
        if getattr(self, "_is_computing", False):
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """Record a call of a leaf module, or trace into it."""
        if getattr(self, "_is_computing", False):
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def path_of_module(self, mod: Module) -> str:
        """Return a module's path; a module without state that has none becomes a submodule."""
        try:
            return super().path_of_module(mod)
        except NameError:
            if not self.allow_insert_stateless_mods or any(mod.parameters()) or any(mod.buffers()):
                raise
            return self._insert_module_as_submodule(mod)

    def _insert_module_as_submodule(self, mod: Module) -> str:
        i, name = 0, type(mod).__name__.lower()
        while hasattr(self.root, f"{name}_{i}"):
            i += 1
        self.root.add_module(f"{name}_{i}", mod)
        return f"{name}_{i}"

    def proxy(self, node: Node) -> MetaProxy:
        """Return the proxy of a node."""
        return MetaProxy(node, self)

    def trace(  # type: ignore[override]
        self, root: Any, meta_args: dict[str, Tensor], concrete_args: Any = None
    ) -> Graph:
        """Return the graph of a module or function; `meta_args`: tensors by parameter name."""
        import flambeau

        if not isinstance(meta_args, dict):
            raise AssertionError(f"Expected dict for meta_args, got {type(meta_args)}")
        self.meta_args = meta_args
        self.orig_fns: set[Any] = set()
        with Patcher() as patcher:
            for name in self._TORCH_METHODS_TO_PATCH:
                wrapper, original = gen_constructor_wrapper(getattr(flambeau, name))
                self.orig_fns.add(original)
                patcher.patch(vars(flambeau), name, wrapper)
            graph = super().trace(root, concrete_args)
        graph._tracer_extras = {"meta_args": meta_args}
        return graph


def symbolic_trace(
    root: Any, meta_args: dict[str, Tensor] | None = None,
    concrete_args: dict[str, Any] | None = None,
) -> GraphModule:
    """Trace a module or function whose control flow may depend on shapes and dtypes.

    Arguments:
        root: the module or function.
        meta_args: by parameter name, tensors on the meta device.
        concrete_args: values that the trace assumes constant.

    >>> from flambeau.fx.experimental.meta_tracer import symbolic_trace
    >>> def f(x):
    ...     return x.relu() if x.shape[0] < 3 else x.sigmoid()
    >>> gm = symbolic_trace(f, {"x": torch.ones(5, device="meta")})
    >>> gm(torch.zeros(5)).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5]
    """
    tracer = MetaTracer()
    graph = tracer.trace(root, meta_args or {}, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
