"""Node: one operation in a graph, with its target, arguments and users."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Optional, Union

from .._namespace.assertions import _assert, _assert_async
from ..ops.core import aten
from ._compatibility import compatibility
from .immutable_collections import immutable_dict, immutable_list
from .qualified_names import qualified_name, torch_module, type_repr

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Union[Callable[..., Any], str]  # noqa: UP007  # prints like PyTorch's alias
Argument = Optional[Any]  # noqa: UP045
BaseArgumentTypes = Any
# Values that arguments store unchanged: immutable, with a repr that Python can read.
base_types: tuple[Any, ...] = (str, int, float, bool, complex)

_LEGAL_OPS = (
    "placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root",
)
_legal_ops = dict.fromkeys(_LEGAL_OPS)

_side_effectful_functions: set[Any] = {
    operator.setitem, _assert, _assert_async,
}
# Random functions: a call advances the generator, even if its result is unused.
RANDOM_OPERATORS = frozenset("""
    bernoulli dropout feature_dropout multinomial normal poisson rand rand_like randint randint_like
    randn randn_like randperm rrelu native_dropout
""".split())

# Aliases that libraries import.
_get_qualified_name, _type_repr = qualified_name, type_repr


@compatibility(is_backward_compatible=False)
def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as having side effects: `Graph.eliminate_dead_code` keeps its calls."""
    _side_effectful_functions.add(fn)
    return fn


@compatibility(is_backward_compatible=True)
class Node:
    """One operation in a graph.

    `op` is the kind of node: `placeholder` (an input), `get_attr` (a parameter or buffer by path),
    `call_function`, `call_method`, `call_module` or `output`. `target` is what it reads or calls;
    in `args` and `kwargs`, other nodes stand for their results. `users` are the nodes that use this
    node's result; `meta` holds arbitrary annotations.

    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> y.format_node()
    '%relu : [num_users=0] = call_function[target=torch.relu](args = (%x,), kwargs = {})'
    """

    graph: Graph
    name: str
    op: str
    target: Any
    type: Any
    meta: dict[str, Any]
    users: dict[Node, None]
    _input_nodes: dict[Node, None]
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _repr_fn: Callable[[Node], str] | None
    _erased: bool = False

    def __init__(
        self, graph: Graph, name: str, op: str, target: Target, args: tuple[Argument, ...],
        kwargs: dict[str, Argument], return_type: Any = None,
    ) -> None:
        expected = "Callable" if op == "call_function" else "str"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                f"{torch_module().typename(target)} but a {expected} is expected"
            )
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        attributes = self.__dict__
        attributes.update(
            graph=graph, name=name, op=op, target=target, type=return_type, meta={}, users={},
            _input_nodes={}, _args=(), _kwargs=immutable_dict(), _repr_fn=None, _prev=self,
            _next=self, _position=0,
        )
        self._set_arguments(args, kwargs)

    # ---------------------------------------------------------------- position in the list of nodes

    @property
    def next(self) -> Node:
        """The next node; after the last comes the list's root, then the first node."""
        return self.__dict__["_next"]

    @property
    def prev(self) -> Node:
        """The previous node."""
        return self.__dict__["_prev"]

    def prepend(self, x: Node) -> None:
        """Move `x`, a node of the same graph, before this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before, attributes, moved = self.prev, self.__dict__, x.__dict__
        before.__dict__["_next"], moved["_prev"] = x, before
        moved["_next"], attributes["_prev"] = self, x
        self.graph._flambeau_order_is_known = False

    def append(self, x: Node) -> None:
        """Move `x`, a node of the same graph, after this one."""
        self.next.prepend(x)

    def _remove_from_list(self) -> None:
        before, behind = self.prev, self.next
        before.__dict__["_next"], behind.__dict__["_prev"] = behind, before

    @property
    def _sort_key(self) -> tuple[int]:
        if not self.graph._flambeau_order_is_known:
            for i, node in enumerate(self.graph.nodes):
                node.__dict__["_position"] = i
            self.graph._flambeau_order_is_known = True
        return (self.__dict__["_position"],)

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self._sort_key <= other._sort_key

    def __ge__(self, other: Node) -> bool:
        return self._sort_key >= other._sort_key

    # ---------------------------------------------------------------- arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments; assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set_arguments(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The distinct nodes among the arguments, in order of first appearance."""
        return list(self._input_nodes)

    def _set_arguments(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        inputs: dict[Node, None] = {}

        def note(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                inputs[leaf] = None
            return leaf

        attributes = self.__dict__
        attributes["_args"] = map_aggregate(tuple(args), note)
        attributes["_kwargs"] = map_aggregate(kwargs, note)
        for node in self._input_nodes:
            node.users.pop(self, None)
        attributes["_input_nodes"] = inputs
        for node in inputs:
            node.users.setdefault(self)

    _update_args_kwargs = _set_arguments
    # PyTorch's private name, which some passes use.
    _Node__update_args_kwargs = _set_arguments

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the positional argument at `idx`."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before the one at `idx`."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the keyword argument `key`."""
        self.kwargs = {**self.kwargs, key: arg}

    # ---------------------------------------------------------------- replacement

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Make the users of this node use `replace_with` instead; return the nodes that changed.

        `delete_user_cb`: selects the users to change; by default all. `propagate_meta`: copy this
        node's meta to `replace_with`, which must not have any yet.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                    "but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb is None or delete_user_cb(user):
                changed.append(user)
                user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace `old_input` by `new_input` everywhere in the arguments."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", ()):
            hook(old=old_input, new=new_input.name, user=self)

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def _rename(self, candidate: str) -> None:
        if candidate == self.name:
            return
        names = self.graph._graph_namespace
        self.name = names.create_name(candidate, None)
        names._rename_object(self, self.name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("op", "target"):
            table = self.graph._find_nodes_lookup_table
            listed = self in table
            if listed:
                table.remove(self)
            object.__setattr__(self, name, value)
            if listed:
                table.insert(self)
            return
        if name == "name":
            for hook in getattr(self.graph.owning_module, "_replace_hooks", ()):
                for user in self.users:
                    hook(old=self, new=value, user=user)
        object.__setattr__(self, name, value)

    # ---------------------------------------------------------------- queries

    @property
    def stack_trace(self) -> str | None:
        """Where the node was created, formatted as a traceback; None if not recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether removing the node would have effects beyond its missing result.

        `impure_random`: whether drawing random numbers counts as an effect.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(getattr(owner.get_submodule(str(self.target)), "_is_impure", False))
        return self.op == "call_function" and _is_impure_call(self, impure_random)

    def normalized_arguments(
        self, root: Any, arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None, normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """Return the arguments by parameter name, with defaults filled in, or None if unknown.

        `root`: the module in which `call_module` nodes look up their targets.
        """
        from .operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types,
                normalize_to_only_use_kwargs=normalize_to_only_use_kwargs,
            )
        if self.op == "call_module":
            return normalize_module(
                root, str(self.target), self.args, self.kwargs,
                normalize_to_only_use_kwargs=normalize_to_only_use_kwargs,
            )
        return None

    # ---------------------------------------------------------------- printing and pickling

    def __repr__(self) -> str:
        show = self.__dict__.get("_repr_fn")
        return show(self) if show else self.__dict__["name"]

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", None) == "builtins":
            return f"builtins.{target.__name__}"
        if getattr(target, "__module__", None) == "_operator":
            return f"operator.{target.__name__}"
        return qualified_name(target)

    def format_node(
        self, placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None, *, include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return the node as one line; None for a placeholder appended to `placeholder_names`."""
        kind = f"{type_repr(self.type)} " if self.type else ""
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_repr(self.type)}"
            return f"return {self.args[0]}"
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            text = f"{self.target}{self.target}: {type_repr(self.type)}" if self.type \
                else str(self.target)
            if placeholder_names:
                placeholder_names.append(text)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}[target={self.target}]{default}"
        head = f"{head}[target={self._pretty_print_target(self.target)}]"
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


_CHECKS = frozenset(("_assert_scalar", "_assert_async"))


def _is_impure_call(node: Node, impure_random: bool) -> bool:
    target: Any = node.target
    if target in _side_effectful_functions or getattr(target, "_is_impure", False):
        return True
    if node.kwargs.get("out") is not None:
        return True
    if isinstance(target, (aten.Overload, aten.Packet)):
        name = getattr(target, "overloadpacket", target).__name__
        if name.endswith("_") and not name.endswith("__") or name in _CHECKS:
            return True
        return impure_random and name in RANDOM_OPERATORS
    name = getattr(target, "__name__", "")
    if qualified_name(target).startswith("torch.") and name in RANDOM_OPERATORS:
        return impure_random
    return False


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """Return an argument as text; `max_list_len` limits how many list elements are shown."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        shown = ", ".join(_format_arg(x) for i, x in enumerate(arg) if i < max_list_len)
        rest = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
        if isinstance(arg, list):
            return f"[{shown}{rest}]"
        return f"({shown}{',' if len(arg) == 1 else ''}{rest})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


@compatibility(is_backward_compatible=True)
def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Any:
    """Replace each node in an argument, at any depth, by `fn(node)`."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


@compatibility(is_backward_compatible=True)
def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Any:
    """Apply `fn` to each leaf of nested tuples, lists, dicts and slices.

    Lists and dicts in the result are immutable.
    """
    if isinstance(a, tuple):
        items: Iterable[Any] = [map_aggregate(x, fn) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)
