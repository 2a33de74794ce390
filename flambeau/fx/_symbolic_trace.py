"""Tracer: run a function or module on proxies and record a graph of what it computes."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import math
import sys
import typing
from collections.abc import Callable
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

from .._namespace.assertions import _assert
from ..jit.torchscript.objects import ScriptObject
from ..native.foundation.user_frames import warn
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..ops.interception import torch_function
from ..ops.quantized.backend import PackedParams
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from ._compatibility import compatibility
from .codegen import _PyTreeCodeGen, _PyTreeInfo
from .graph import Graph
from .graph_module import GraphModule, make_graph_module
from .node import Argument, base_types
from .patcher import (
    WRAPPED_FUNCTIONS, WRAPPED_METHODS, Patcher, patch_seen_functions, patch_tensor_methods,
    patch_wrapped_functions,
)
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from .trace_errors import explain

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_PACKAGE = __name__.partition(".")[0] + "."
HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
# Aliases that libraries import, those with tracers of their own.
_wrapped_fns_to_patch, _wrapped_methods_to_patch = WRAPPED_FUNCTIONS, WRAPPED_METHODS
_Patcher, _autowrap_check, _patch_wrapped_functions = (
    Patcher, patch_seen_functions, patch_wrapped_functions)
_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__
_CONSTANTS = (Tensor, ScriptObject, PackedParams, pytree.TreeSpec)
_proxyable_classes: dict[type, None] = {}
_depth = 0  # number of running traces


def is_fx_tracing() -> bool:
    """Return whether a trace is running."""
    return _depth > 0


is_fx_symbolic_tracing = is_fx_tracing


@compatibility(is_backward_compatible=True)
class ProxyableClassMeta(type):
    """Metaclass whose classes, when called with proxies during a trace, are recorded as nodes."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        instance: Any = cls.__new__(cls)  # type: ignore[call-overload]
        if not is_fx_tracing():
            instance.__init__(*args, **kwargs)
            return instance
        result: list[Proxy] = []
        pytree.tree_map_(lambda x: result.append(x) if isinstance(x, Proxy) else x, (args, kwargs))
        if result:
            return result[0].tracer.create_proxy("call_function", cls, args, kwargs)
        instance.__init__(*args, **kwargs)
        return instance


@compatibility(is_backward_compatible=False)
class PHBase:
    """Marks an argument in `concrete_args` that remains an input."""

    def __repr__(self) -> str:
        return "PH"


@compatibility(is_backward_compatible=False)
class PHWithMeta(PHBase):
    """A placeholder whose attributes, such as a name, are copied to its node."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


PH = PHBase()


def _patch_function(fn: FunctionType, nargs: int) -> FunctionType:
    """Return a copy of the function with `nargs` plain parameters instead of *args and **kwargs."""
    code: CodeType = fn.__code__.replace(
        co_argcount=nargs, co_posonlyargcount=0, co_kwonlyargcount=0,
        co_flags=fn.__code__.co_flags & ~HAS_VARSTUFF,
    )
    return FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


@compatibility(is_backward_compatible=False)
def _assert_is_none(value: object, msg: str) -> None:
    assert value is None, msg


@compatibility(is_backward_compatible=True)
class Tracer(TracerBase):
    """Records a graph of a function or module; subclasses decide what is a leaf.

    >>> class Deep(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, qualified_name):
    ...         return False
    >>> [node.op for node in Deep().trace(nn.Sequential(nn.ReLU())).nodes]
    ['placeholder', 'call_function', 'output']
    """

    _qualname_counter: ClassVar[dict[str, int]] = collections.defaultdict(int)

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        names = chain.from_iterable(vars(module).items() for module in autowrap_modules)
        self._autowrap_function_ids = {
            id(value) for name, value in names if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    # ---------------------------------------------------------------- hooks for subclasses

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether to record calls of `m` as one node: torch.nn layers, except Sequential."""
        from ..nn import Sequential

        home = m.__module__.replace("flambeau.", "torch.", 1)
        return home.startswith(("torch.nn", "torch.ao.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return a submodule's path from the root. NameError if it is not a submodule."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for path, module in self.root.named_modules():
            if module is mod:
                return path
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Record a call of a leaf module as a node; otherwise run `forward`. Return the result."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{calls}" if calls else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = calls + 1
            if self.is_leaf_module(m, path):
                result = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            self.module_stack.popitem(last=True)
        return result

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return the value for reading a module's attribute: a proxy if it is a parameter."""
        members: Any
        if isinstance(attr_val, Parameter):
            members = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        for name, member in members:
            if attr_val is not member:
                continue
            if name not in parameter_proxy_cache:
                options: dict[str, Any] = {}
                if "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
                    options["proxy_factory_fn"] = self._build_parameter_lookup(name, attr_val)
                parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
            return parameter_proxy_cache[name]
        return attr_val

    def _build_parameter_lookup(self, name: str, value: Any) -> Callable[[Any], Proxy] | None:
        if not self.param_shapes_constant:
            return None
        return lambda node: ParameterProxy(self, node, name, value)

    # ---------------------------------------------------------------- arguments

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return the prefix with the first number that makes it an unused attribute of the root."""
        if not hasattr(self.root, f"{prefix}0"):
            self._qualname_counter[prefix] = 0
            return f"{prefix}0"
        i = self._qualname_counter[prefix]
        while hasattr(self.root, f"{prefix}{i}"):
            i += 1
        self._qualname_counter[prefix] = i + 1
        return f"{prefix}{i}"

    def create_arg(self, a: Any) -> Argument:
        """Extend TracerBase's: read parameters, modules and tensor constants through get_attr."""
        members: Any = ()
        if isinstance(a, Parameter):
            members = self.root.named_parameters()
        elif isinstance(a, Tensor):
            members = self.root.named_buffers()
        elif isinstance(a, Module):
            members = self.root.named_modules()
        for name, member in members:
            if a is member:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, Parameter):
            error = NameError("parameter is not a member of this module")
            explain(error, "Assign it to an attribute of the module that is traced.")
            raise error
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            parts = tuple(self.create_arg(x) for x in a)
            return self.create_node("call_function", a.__class__, parts, {})
        if isinstance(a, _CONSTANTS):
            return self._constant(a, "_tree_spec_constant" if isinstance(a, pytree.TreeSpec)
                                  else "_tensor_constant")
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{a.__class__.__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _constant(self, value: Any, prefix: str) -> Argument:
        """Add a get_attr node for a constant, first storing it on the root if necessary."""
        name = self.tensor_attrs.get(value)
        if not name:
            name = self.get_fresh_qualname(prefix)
            self.tensor_attrs[value] = name
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Return the function to run, and a proxy or concrete value for each of its parameters."""
        inner = inspect.unwrap(root_fn)
        if not hasattr(inner, "__code__"):  # an operator, which is built in in PyTorch
            raise AssertionError(f"Expected FunctionType, got {BuiltinFunctionType}")
        code = inner.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = iter(code.co_varnames)
        args: list[Any] = []
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            next(names)
            args.append(self.root)
        signature = inspect.signature(inner)
        if isinstance(concrete_args, tuple) and concrete_args and total == 1 and \
                code.co_flags & HAS_VARSTUFF:
            for i, value in enumerate(concrete_args):
                out = self.create_proxy("placeholder", f"input_{i}", (), {})
                _transfer_attributes(value, out)
                args.append(out)
            return root_fn, args
        positional = [next(names) for _ in range(len(args), total)]
        if isinstance(concrete_args, tuple):
            if len(positional) != len(concrete_args):
                raise RuntimeError(f"Tracing expected {len(positional)} arguments but got "
                                   f"{len(concrete_args)} concrete arguments")
            concrete_args = dict(zip(positional, concrete_args, strict=True))
        starred = [mark + next(names) for mark, flag in
                   (("*", inspect.CO_VARARGS), ("**", inspect.CO_VARKEYWORDS))
                   if code.co_flags & flag]
        args += [self._proxy_placeholder(name, concrete_args, signature, inner)
                 for name in positional + starred]
        if code.co_kwonlyargcount or starred:
            root_fn = _patch_function(inner, len(args))
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        return self._flatten_function(root_fn, list(code.co_varnames)[:total], spec), leaves

    def _flatten_function(self, root_fn: Callable, names: list[str], spec: Any) -> Callable:
        """Return the function on flattened arguments; generated code will do the flattening."""
        codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))
        self.graph._codegen = codegen

        def flatten_fn(*leaves):  # type: ignore[no-untyped-def]  # annotations would be recorded
            result = root_fn(*pytree.tree_unflatten(list(leaves), spec))
            out_leaves, out_spec = pytree.tree_flatten(result)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out_leaves

        return flatten_fn

    def _proxy_placeholder(
        self, name: str, concrete_args: Any, sig: inspect.Signature, fn_for_analysis: Any
    ) -> Any:
        bare = name.lstrip("*")
        declared = sig.parameters[bare].default if name == bare else inspect.Parameter.empty
        default = () if declared is inspect.Parameter.empty else (declared,)
        if concrete_args is None or name not in concrete_args:
            kind = _read_annotations(fn_for_analysis).get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        count = 0

        def replace(x: Any) -> Any:
            nonlocal count
            count += 1
            out = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(x, PHBase):
                _transfer_attributes(x, out)
                return out
            self._specialize(name, x, out)
            return x

        return pytree.tree_map(replace, concrete_args[name])

    def _specialize(self, name: str, value: Any, out: Proxy) -> None:
        """Make the graph check that an argument has the value that the trace assumed."""
        if type(value) is bool or (type(value) in base_types and type(value) is not Tensor):
            _assert(out == value, f"{name} has been specialized to have value {value} but got "
                                  "another value")
        elif value is None:
            text = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (out, text), {})
        else:
            warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs "
                "you specialized the function with."
            )

    # ---------------------------------------------------------------- the trace

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """Return the graph of a module's forward, or of a function.

        `concrete_args`: values by parameter name that the trace assumes constant; `torch.fx.PH` in
        them marks values that remain inputs.
        """
        global _depth
        _depth += 1
        try:
            fn = self._begin(root)
            own_globals = fn.__globals__
            fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
            with torch_function.mark_handed_over(), Patcher() as patcher:
                self._patch_modules(patcher)
                patch_tensor_methods(patcher)
                patch_wrapped_functions(patcher)
                patch_seen_functions(patcher, own_globals, self._autowrap_function_ids)
                for module in self._autowrap_search:
                    patch_seen_functions(patcher, vars(module), self._autowrap_function_ids)
                result = self.create_arg(fn(*args))
                kind = _read_annotations(inspect.unwrap(fn)).get("return")
                self.create_node("output", "output", (result,), {}, type_expr=kind)
            self.submodule_paths = None
        finally:
            _depth -= 1
        return self.graph

    def _begin(self, root: Any) -> Any:
        """Set up the graph and return the function to run."""
        fn: Any
        if isinstance(root, Module):
            self.root = root
            fn = _find_method(root, self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: path for path, module in root.named_modules()}
        else:
            self.root, fn = Module(), root
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        code = getattr(fn, "__code__", None)
        if code is not None:
            self.graph._co_fields = {"co_name": code.co_name, "co_filename": code.co_filename,
                                     "co_firstlineno": code.co_firstlineno}
        self.tensor_attrs: dict[Any, str] = {}
        self._collect_constants(self.root, "")
        if not isinstance(fn, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(fn)}")
        return fn

    def _collect_constants(self, module: Module, prefix: str) -> None:
        for name, value in vars(module).items():
            if isinstance(value, _CONSTANTS):
                self.tensor_attrs[value] = prefix + name
        for name, child in module.named_children():
            self._collect_constants(child, f"{prefix}{name}.")

    def _patch_modules(self, patcher: Patcher) -> None:
        """Route parameter reads and module calls through this tracer."""
        read, call = Module.__getattr__, Module.__call__
        proxies: dict[str, Proxy] = {}

        @functools.wraps(read)
        def module_getattr(mod: Module, attr: str) -> Any:
            return self.getattr(attr, read(mod, attr), proxies)

        @functools.wraps(call)
        def module_call(mod: Module, *args: Any, **kwargs: Any) -> Any:
            used = getattr(getattr(mod, "forward", mod), "__globals__", {})
            patch_seen_functions(patcher, used, self._autowrap_function_ids)
            return self.call_module(mod, functools.partial(call, mod), args, kwargs)

        patcher.patch_method(Module, "__getattr__", module_getattr, deduplicate=False)
        patcher.patch_method(Module, "__call__", module_call, deduplicate=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        copied = Tracer.__new__(Tracer)
        for name, value in vars(self).items():  # Python modules cannot be deep-copied
            deep = name != "_autowrap_search"
            copied.__dict__[name] = copy.deepcopy(value, memo) if deep else copy.copy(value)
        return copied


def _find_method(root: Module, name: str) -> Any:
    """Return the method of a module that is traced; lazy graph modules generate theirs now."""
    if isinstance(root, GraphModule):
        root.real_recompile()
    if not hasattr(type(root), name):
        raise AssertionError(f"traced_func_name={name} doesn't exist in {type(root).__name__}")
    return getattr(type(root), name)


def _read_annotations(function: Any) -> dict[str, Any]:
    """Return a function's annotations; evaluate the string annotations of flambeau's own layers."""
    written: dict[str, Any] = getattr(function, "__annotations__", {})
    if not str(getattr(function, "__module__", "")).startswith(_PACKAGE):
        return written
    try:
        return typing.get_type_hints(function)
    except NameError:  # a name imported only for type checkers
        return {}


def _transfer_attributes(source: Any, out: Proxy) -> None:
    if isinstance(source, PHBase) and source is not PH:
        for name in dir(source):
            is_inherited = name.startswith("__") or callable(getattr(source, name))
            if not is_inherited and not hasattr(out.node, name):
                setattr(out.node, name, getattr(source, name))


@compatibility(is_backward_compatible=True)
def wrap(fn_or_name: Any) -> Any:
    """Make a function of the calling module a leaf: traces record calls to it, not its body.

    Call it at the top level of a module, with the function or its name, or use it as a decorator.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    WRAPPED_FUNCTIONS[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


@compatibility(is_backward_compatible=True)
def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Trace a function or module into a GraphModule by one run on proxies.

    `concrete_args`: values by parameter name that the trace assumes constant, so that control flow
    can depend on them; `torch.fx.PH` in them marks values that remain inputs.

    >>> print(torch.fx.symbolic_trace(lambda x, y: torch.relu(x) @ y).code.strip())
    def forward(self, x, y):
        relu = torch.relu(x);  x = None
        matmul = relu @ y;  relu = y = None
        return matmul
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return make_graph_module(tracer.root, graph, name)
