"""Interpreter and Transformer: run a graph node by node, or rebuild it by such a run."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from ..nn.module import Module
from . import traceback as fx_traceback
from ._compatibility import compatibility
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule, make_graph_module
from .module_paths import attribute_at
from .node import Argument, Node, map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


@compatibility(is_backward_compatible=True)
class Interpreter:
    """Runs a graph node by node; subclasses override methods to observe or change it.

    `module`: where submodules and attributes are read from. `garbage_collect_values`: drop values
    after their last use. `graph`: run this graph instead of the module's.

    >>> class Count(torch.fx.Interpreter):
    ...     def run_node(self, n):
    ...         print(n.op)
    ...         return super().run_node(n)
    >>> Count(torch.fx.symbolic_trace(lambda x: x + 1)).run(torch.zeros(1))
    placeholder
    call_function
    output
    tensor([1.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module: Any = module
        self.submodules = dict(self.module.named_modules())
        self.graph: Graph = self.module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for user in reversed(self.graph.nodes):
                for node in user._input_nodes:
                    if node not in seen:
                        seen.add(node)
                        self.user_to_last_uses.setdefault(user, []).append(node)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph on these inputs and return its result.

        `initial_env`: values of nodes that need not run. `enable_io_processing`: whether inputs and
        result have the structure of the generated function's.
        """
        self.env = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._locate(node, error)
                raise
            if self.garbage_collect_values:
                for dead in self.user_to_last_uses.get(node, ()):
                    del self.env[dead]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Do `run` on a list of inputs, emptying the list."""
        inputs = iter(args_list[:])
        args_list.clear()
        env = {n: next(inputs) for n in self.graph.nodes if n.op == "placeholder"}
        return self.run(initial_env=env)

    @staticmethod
    def _locate(node: Node, error: Exception) -> None:
        text = f"While executing {node.format_node()}"
        text = f"{error.args[0]}\n\n{text}" if error.args else str(text)
        text += f"\nOriginal traceback:\n{node.stack_trace}"
        error.args = (text, *error.args[1:])
        if isinstance(error, KeyError):
            raise RuntimeError(*error.args) from error

    @contextlib.contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Run a node and return its value."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # ---------------------------------------------------------------- one method for each op

    def placeholder(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next input; for `*args` all remaining ones; if none is left, the default."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as error:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from error

    def get_attr(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the module's attribute at a path."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function and return its result."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call the first argument's method and return its result."""
        first, *rest = args
        return getattr(first, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call the submodule and return its result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the graph's result."""
        return args[0]

    # ---------------------------------------------------------------- values

    def fetch_attr(self, target: str) -> Any:
        """Return the module's attribute at a path. RuntimeError if there is none."""
        try:
            return attribute_at(self.module, target)
        except AttributeError:
            raise RuntimeError(f"Node referenced nonexistent target {target}") from None

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """Return a node's args and kwargs with nodes replaced by their values."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Replace nodes in the arguments by their values. RuntimeError if one has not been run."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint()"
                                   " to diagnose such issues")
            return self.env[node]

        return map_arg(args, value)


class _TransformerTracer(Tracer):
    """Builds the new graph, treating every module as a leaf."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.tensor_attrs: dict[Any, str] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


@compatibility(is_backward_compatible=True)
class Transformer(Interpreter):
    """Runs a graph on proxies; what the overridden methods return forms a new module.

    >>> class Negate(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(target, args, kwargs) * -1
    >>> Negate(torch.fx.symbolic_trace(lambda x: x + 1)).transform()(torch.zeros(1))
    tensor([-1.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Add a placeholder and return its proxy."""
        default = next(iter(args)) if args else inspect.Signature.empty
        node = self.new_graph.placeholder(target, default_value=default)
        return Proxy(node, self.tracer)

    def get_attr(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Add a get_attr node and return its proxy."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a submodule on proxies, through the tracer."""
        submodule = self.fetch_attr(target)
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Add a call_function node and return its proxy."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the new module."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            value = map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)
            original_output = self.graph.output_node()
            node = self.new_graph.output(value)
            node.meta.update(original_output.meta)
        return make_graph_module(self.module, self.new_graph)
