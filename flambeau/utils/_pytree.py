"""torch.utils._pytree: nested containers as a list of leaves and a description of the rest.

Containers are tuples, named tuples, lists, dicts (ordered and default ones too), deques, and
classes that are registered.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "LeafSpec", "TreeSpec", "register_pytree_node", "tree_all", "tree_any", "tree_flatten",
    "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_structure", "tree_unflatten",
]  # fmt: skip

_Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
_Unflatten = Callable[[Iterable[Any], Any], Any]


class NodeDef(NamedTuple):
    """How a kind of container is taken apart and put together."""

    type: Any
    flatten_fn: _Flatten
    unflatten_fn: _Unflatten


_built_in: dict[Any, tuple[_Flatten, _Unflatten]] = {
    tuple: (lambda x: (list(x), None), lambda values, _: tuple(values)),
    list: (lambda x: (x, None), lambda values, _: list(values)),
    dict: (lambda x: (list(x.values()), list(x)),
           lambda values, keys: dict(zip(keys, values, strict=True))),
    OrderedDict: (lambda x: (list(x.values()), list(x)),
                  lambda values, keys: OrderedDict(zip(keys, values, strict=True))),
    defaultdict: (lambda x: (list(x.values()), (x.default_factory, list(x))),
                  lambda values, kept: defaultdict(kept[0], zip(kept[1], values, strict=True))),
    deque: (lambda x: (list(x), x.maxlen), lambda values, most: deque(values, maxlen=most)),
    # All classes of named tuples, under the function that makes them.
    namedtuple: (lambda x: (list(x), type(x)), lambda values, kind: kind(*values)),
}  # fmt: skip
_kinds: dict[Any, NodeDef] = {kind: NodeDef(kind, *both) for kind, both in _built_in.items()}


@dataclass(frozen=True, repr=False)
class TreeSpec:
    """What a container is without its leaves: its class, what else it needs, its children."""

    type: Any
    context: Any
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        """How many leaves there are below."""
        return 1 if self.type is None else sum(one.num_leaves for one in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it stands for a leaf."""
        return self.type is None

    def __repr__(self) -> str:
        inner = ",\n".join(map(repr, self.children_specs)).replace("\n", "\n  ")
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"


@dataclass(frozen=True, repr=False)
class LeafSpec(TreeSpec):
    """The description of a leaf."""

    type: Any = None
    context: Any = None

    def __repr__(self) -> str:
        return "*"


def register_pytree_node(
    cls: type, flatten_fn: _Flatten, unflatten_fn: _Unflatten, **names: Any
) -> None:
    """Makes a class a container: (children, context) of an instance, and back again."""
    _kinds[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


def _parts(tree: Any) -> tuple[Sequence[Any], Any, Any] | None:
    """(children, context, class) of a container, None for a leaf."""
    kind = _get_node_type(tree)
    if kind in _kinds:
        children, context = _kinds[kind].flatten_fn(tree)
        return children, context, kind
    return None


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and what puts them together again.

    >>> leaves, spec = torch.utils._pytree.tree_flatten({"a": 1, "b": (2, [3])})
    >>> leaves
    [1, 2, 3]
    >>> torch.utils._pytree.tree_unflatten([4, 5, 6], spec)
    {'a': 4, 'b': (5, [6])}
    """
    parts = None if is_leaf is not None and is_leaf(tree) else _parts(tree)
    if parts is None:
        return [tree], LeafSpec()
    children, context, kind = parts
    leaves: list[Any] = []
    specs = []
    for child in children:
        found, spec = tree_flatten(child, is_leaf)
        leaves += found
        specs.append(spec)
    return leaves, TreeSpec(kind, context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The container of a description with other leaves; ValueError where their number differs."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec "
            f"refers to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    if treespec.is_leaf():
        return leaves[0]
    children, start = [], 0
    for spec in treespec.children_specs:
        children.append(tree_unflatten(leaves[start : start + spec.num_leaves], spec))
        start += spec.num_leaves
    return _kinds[treespec.type].unflatten_fn(children, treespec.context)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """What a container is without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """The container with func(leaf, leaf of each of `rests`...) as leaves.

    >>> torch.utils._pytree.tree_map(lambda x: 2 * x, {"a": 1, "b": (2, [3])})
    {'a': 2, 'b': (4, [6])}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(one, is_leaf)[0] for one in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Calls func on the leaves; the container itself is returned."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    kind: Any, func: Callable[[Any], Any], tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:  # fmt: skip
    """`tree_map` for leaves of a class (or that a predicate picks); others stay."""
    wanted = kind if callable(kind) and not isinstance(kind, type) else (
        lambda x: isinstance(x, kind))  # fmt: skip
    return tree_map(lambda x: func(x) if wanted(x) else x, tree, is_leaf=is_leaf)


def tree_all(
    pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether a predicate holds for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(
    pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether a predicate holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


# ------------------------------------------------ private names that programs import

PyTree = Any
SUPPORTED_NODES = _kinds


@dataclass(frozen=True)
class MappingKey:
    """Where a child lies in a dict."""

    key: Any


def _get_node_type(tree: Any) -> Any:
    kind = type(tree)
    if kind not in _kinds and isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return namedtuple
    return kind


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    values, keys = _dict_flatten(d)
    return [(MappingKey(k), v) for k, v in zip(keys, values, strict=True)], keys
