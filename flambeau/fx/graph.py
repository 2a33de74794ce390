"""Graph: a function as a list of nodes, which passes read, change and turn back into code."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..native.foundation.user_frames import warn
from ..tensor.absent import make_absent_getattr
from ._compatibility import compatibility
from .code_writer import format_target
from .codegen import (
    CodeGen, PythonCode, TransformCodeFunc, override_sym_repr,
)
from .namespace import Namespace, custom_builtins, register_custom_builtin
from .node import Argument, Node, Target, map_arg
from .qualified_names import is_from_torch, find_node_name, qualified_name, snake_case
from .stack_summary import ParsedStackTrace, parse_stack_trace
from .well_formed import check_graph

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

# Aliases that libraries import.
_Namespace, _snake_case, _get_qualified_name = Namespace, snake_case, qualified_name
_format_target, _is_from_torch, _register_custom_builtin = (
    format_target, is_from_torch, register_custom_builtin
)
_ParsedStackTrace, _parse_stack_trace = ParsedStackTrace, parse_stack_trace
_override_sym_repr = override_sym_repr
_EMPTY = inspect.Signature.empty


_absent = make_absent_getattr(__name__)


def __getattr__(name: str) -> Any:
    return custom_builtins() if name == "_custom_builtins" else _absent(name)


class _node_list:
    """A graph's nodes in order; nodes may be added and erased during iteration."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Any]:
        root, step = self.graph._root, self.direction
        current = root.__dict__[step]
        while current is not root:
            if not current._erased:
                yield current
            current = current.__dict__[step]

    def __reversed__(self) -> Iterator[Any]:
        return iter(_node_list(self.graph, "_next" if self.direction == "_prev" else "_prev"))


class _FindNodesLookupTable:
    """Index of nodes by op and, for functions, by target."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, Any], dict[Node, None]] = defaultdict(dict)

    @staticmethod
    def _key(node: Node) -> tuple[str, Any]:
        return node.op, node.target if node.op == "call_function" else None

    def __contains__(self, node: Node) -> bool:
        return node in self.table.get(self._key(node), ())

    def insert(self, node: Node) -> None:
        """Add a node."""
        self.table[self._key(node)][node] = None

    def remove(self, node: Node) -> None:
        """Remove a node."""
        self.table[self._key(node)].pop(node)

    def find_nodes(self, *, op: str, target: Target | None = None) -> list[Node]:
        """Return the nodes with an op (and target), in insertion order."""
        if op == "call_function":
            if target is None:
                raise AssertionError("target is required for call_function op")
            return list(self.table.get((op, target), ()))
        nodes = self.table.get((op, None), ())
        return [n for n in nodes if target is None or n.target == target]


class _InsertPoint:
    """Sets where new nodes go; used as a context, restores the previous position on exit."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.graph._insert = self.orig_insert


@compatibility(is_backward_compatible=True)
class Graph:
    """A function as a list of nodes in execution order.

    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> _ = graph.output(y)
    >>> print(graph.python_code("self").src.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        return relu
    """

    def __init__(
        self, owning_module: GraphModule | None = None, tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._owning_module = None
        self._find_nodes_lookup_table = _FindNodesLookupTable()
        self._root: Node = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._flambeau_order_is_known = False
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> Any:
        """The GraphModule that runs this graph, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order."""
        return _node_list(self)

    def output_node(self) -> Node:
        """Return the last node, which must be the output."""
        node: Node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    def find_nodes(
        self, *, op: str, target: Target | None = None, sort: bool = True
    ) -> list[Any]:
        """Return the nodes with an op and target (required for `call_function`), in graph order."""
        nodes = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(nodes) if sort else nodes

    # ---------------------------------------------------------------- new nodes

    def create_node(
        self, op: str, target: Target, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node at the insertion point. Its name is made unique."""
        if op not in (legal := ("call_function", "call_method", "get_attr", "call_module",
                                "placeholder", "output")):
            raise AssertionError(f"op '{op}' is not in _legal_ops: {legal}")
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, self._graph_namespace.create_name(candidate, None), op, target, args,
                    kwargs, type_expr)
        for hook in getattr(self._owning_module, "_create_node_hooks", ()):
            hook(node)
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add an input; it is required unless `default_value` is given."""
        args = () if default_value is ... or default_value is _EMPTY else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a read of a parameter or buffer, by its path in the owning module."""
        owner = self.owning_module
        if owner is not None and not _has_reference(owner, qualified_name):
            _warn_missing(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer"
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None,
    ) -> Node:
        """Add a call of a submodule, by its path in the owning module."""
        owner = self.owning_module
        if owner and not _has_submodule(owner, module_name):
            _warn_missing(
                "Attempted to insert a call_module Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule"
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None,
    ) -> Node:
        """Add a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None, name: str | None = None,
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add the output node; nodes in `result` stand for their values."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    # ---------------------------------------------------------------- copies

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """Copy a node of another graph; `arg_transform` maps the nodes in its arguments."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = copy.copy(node.meta)
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Copy the nodes of `g`; return the copy of its result.

        `val_map`: filled with the copy of each node; nodes already in it are not copied.
        `return_output_node`: also return the output node of `g`.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        memo = memo if memo else {}
        copied = Graph(tracer_cls=self._tracer_cls)
        result = copied.graph_copy(self, val_map=memo, return_output_node=True)
        copied._codegen = copy.deepcopy(self._codegen)
        if result is not None:
            value, original_output = result
            output = copied.output(value, type_expr=original_output.type)
            output.meta = copy.copy(original_output.meta)
        return copied

    # ---------------------------------------------------------------- changes

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node. RuntimeError if other nodes use its result."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            _warn_missing(f"erase_node({to_erase}) on an already erased node")
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before `n` (default: all others); as a context, until it exits."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes after `n` (default: all others); as a context, until it exits."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def process_inputs(self, *args: Any) -> Any:
        """Map the generated function's arguments to the graph's inputs."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Map the graph's result to the generated function's result."""
        return self._codegen.process_outputs(out)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase nodes without users or side effects; return whether any were erased.

        `is_impure_node`: which nodes have side effects; `Node.is_impure` by default.
        """
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not impure and not node.users:
                self.erase_node(node)
                changed = True
        if self.owning_module is not None:
            from .graph_module import GraphModule

            read = {node.target for node in self.find_nodes(op="get_attr")}
            for name, child in self.owning_module.named_children():
                if name in read and isinstance(child, GraphModule):
                    changed = child.graph.eliminate_dead_code() or changed
                    child.recompile()
        return changed

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    # ---------------------------------------------------------------- checks, text and code

    def lint(self) -> None:
        """Raise RuntimeError unless values are defined before use and targets exist."""
        check_graph(self)

    def __str__(self) -> str:
        lines = [node.format_node([]) for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines if line)

    def print_tabular(self) -> None:
        """Print the nodes as a table. Requires the package tabulate."""
        try:
            from tabulate import tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on "
                "this machine. Run `pip install tabulate` to install the library."
            )
            raise
        rows = [[n.op, n.name, _shown(n.target), n.args, n.kwargs] for n in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    def _target_to_str(self, target: Any) -> str:
        if callable(target):
            return find_node_name(target)
        if target.startswith("__") and target.endswith("__"):
            target = target[2:-2]
        return snake_case(target)

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """Return the graph as a function's source; `root_module`: name of the module in that code.

        Options: `verbose` adds source lines and shapes; `include_stride` and `include_device` add
        these to the shapes; `colored` adds colors; `expanded_def` writes one parameter per line.
        """
        namespace = Namespace()
        names = {node: node._repr_fn for node in self.nodes}
        for node in names:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._python_code(root_module, namespace, **options)
        finally:
            for node, show in names.items():
                node._repr_fn = show

    def _python_code(self, root_module: str, namespace: Namespace, **options: Any) -> PythonCode:
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Set the CodeGen that writes the graph."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Register a function that transforms the lines of generated code.

        `make_transformer` receives the current function and returns the new one. Used as a context,
        the change is undone on exit.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def until_left() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return until_left()


def _shown(target: Any) -> Any:
    """Return a target as tables print it: torch functions look like PyTorch's builtins."""
    if callable(target):
        from .qualified_names import format_function

        return format_function(target)
    return target


def _warn_missing(text: str) -> None:
    warn(text)


def _has_submodule(owner: Any, path: str) -> bool:
    try:
        return owner.get_submodule(path) is not None
    except AttributeError:
        return False


def _has_reference(owner: Any, path: str) -> bool:
    above, _, name = path.rpartition(".")
    try:
        return hasattr(owner.get_submodule(above), name)
    except AttributeError:
        return False
