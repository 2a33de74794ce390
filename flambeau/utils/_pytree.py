"""torch.utils._pytree: flatten nested containers to a list of leaves and a spec of the structure.

Containers are tuples, named tuples, lists, dicts (OrderedDict and defaultdict too), deques, and
registered classes.
"""

from __future__ import annotations

import importlib
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields as dataclass_fields
from typing import Any, NamedTuple

from ..native.foundation.user_frames import warn
from ..ops.core.return_types import RETURN_TYPES
from .pytree_keys import GetAttrKey, KeyEntry, KeyPath, MappingKey, SequenceKey, key_get, keystr

__all__ = [
    "Context", "DumpableContext", "FlattenFn", "FromDumpableContextFn", "LeafSpec", "PyTree",
    "PyTreeSpec", "ToDumpableContextFn", "TreeSpec", "UnflattenFn", "is_namedtuple",
    "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class",
    "is_structseq_instance", "key_get", "keystr", "register_pytree_node", "tree_all",
    "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path",
    "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_",
    "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
    "treespec_dumps", "treespec_loads", "treespec_pprint",
]

PyTree = Context = DumpableContext = Any
FlattenFn = Callable[[Any], tuple[Sequence[Any], Any]]
FlattenFunc = FlattenFn
UnflattenFn = Callable[[Iterable[Any], Any], Any]
UnflattenFunc = UnflattenFn
ToDumpableContextFn = Callable[[Any], Any]
FromDumpableContextFn = ToDumpableContextFn
FlattenWithKeysFn = Callable[[Any], tuple[list[tuple[KeyEntry, Any]], Any]]
IsLeaf = Callable[[Any], bool] | None
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


class NodeDef(NamedTuple):
    """Functions that flatten and unflatten a container type."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None = None
    serialized_type_name: str | None = None
    to_dumpable_context: ToDumpableContextFn | None = None
    from_dumpable_context: FromDumpableContextFn | None = None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))
BUILTIN_TYPES = frozenset((tuple, list, deque, namedtuple, *STANDARD_DICT_TYPES))


# ----------------------------------------------------------------------------- specifications


class TreeSpec:
    """A container's structure without its leaves: type, context, children's specs."""

    __slots__ = ("_children", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        leaf = type is None
        self.num_leaves: int = 1 if leaf else sum(child.num_leaves for child in children_specs)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in children_specs)

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The children's specs."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """Return a copy of the list of the children's specs."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """Return the spec of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Return whether this is a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build the container from its leaves. Raises ValueError for the wrong number."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterable[Any]) -> Any:
        if self.type is None:
            return next(leaves)  # type: ignore[call-overload]
        children = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of `tree` at the positions of this spec's leaves.

        Raises ValueError if `tree` has a different structure above them.
        """
        subtrees: list[Any] = []
        self._collect(tree, subtrees)
        return subtrees

    def _collect(self, tree: Any, subtrees: list[Any]) -> None:
        if self.type is None:
            subtrees.append(tree)
            return
        node_type = _get_node_type(tree)
        if node_type != self.type and not {node_type, self.type} <= STANDARD_DICT_TYPES:
            raise ValueError(
                f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}."
            )
        children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
            )
        if node_type in STANDARD_DICT_TYPES:
            children = [tree[key] for key in self._match_keys(tree)]
        elif context != self.context:
            raise ValueError(
                f"Node context mismatch for custom node type {self.type!r}."
                if node_type not in BUILTIN_TYPES else
                f"Node context mismatch; expected {self.context!r}, but got {context!r}."
            )
        for child, subtree in zip(self._children, children, strict=True):
            child._collect(subtree, subtrees)

    def _match_keys(self, tree: dict[Any, Any]) -> list[Any]:
        keys = self.context[1] if self.type is defaultdict else self.context
        missing, extra = set(keys) - set(tree), set(tree) - set(keys)
        if missing or extra:
            problems = [f"missing key(s): {missing}"] if missing else []
            problems += [f"extra key(s): {extra}"] if extra else []
            raise ValueError(f"Node keys mismatch; {'; '.join(problems)}.")
        return list(keys)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self._children) == (
            other.type, other.context, other._children)

    def __hash__(self) -> int:
        keys = self.context if self.type in STANDARD_DICT_TYPES else None
        shown = tuple(map(str, keys)) if isinstance(keys, list) else None
        return hash((self.type, shown, tuple(self._children)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        inner = ",\n".join(map(repr, self._children)).replace("\n", "\n  ")
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


PyTreeSpec = TreeSpec
_LEAF = LeafSpec()


def treespec_leaf() -> TreeSpec:
    """Return the spec of a leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """Return the spec of a tuple of trees."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """Return the spec of a dict of trees."""
    children = dict(mapping, **kwargs)
    return TreeSpec(dict, list(children), list(children.values()))


# ------------------------------------------------------------------------- kinds of containers


def register_pytree_node(
    cls: type, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Register a class as a container. `flatten_fn(x)` returns (children, context).

    Raises ValueError if the class is already registered.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    SUPPORTED_NODES[cls] = NodeDef(
        cls, flatten_fn, unflatten_fn, flatten_with_keys_fn, serialized_type_name,
        to_dumpable_context, from_dumpable_context,
    )


def _register_pytree_node(
    cls: type, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, to_str_fn: Any = None,
    maybe_from_str_fn: Any = None, **options: Any,
) -> None:
    warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
        "`torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
    )
    if SUPPORTED_NODES.pop(cls, None) is not None:
        warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.")
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Name a class of named tuples, which are containers anyway, for serialized specs."""
    node = SUPPORTED_NODES[namedtuple]
    SUPPORTED_NODES[cls] = NodeDef(
        cls, node.flatten_fn, node.unflatten_fn, node.flatten_with_keys_fn, serialized_type_name,
        None, None,
    )


_private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    SUPPORTED_NODES.pop(cls, None)


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Register a dataclass as a container of its fields."""
    names = [f.name for f in dataclass_fields(cls) if f.init] if field_names is None \
        else list(field_names)
    names = [name for name in names if name not in (drop_field_names or ())]

    def flatten(x: Any) -> tuple[list[Any], Any]:
        return [getattr(x, name) for name in names], None

    def flatten_with_keys(x: Any) -> tuple[list[tuple[KeyEntry, Any]], Any]:
        return [(GetAttrKey(name), getattr(x, name)) for name in names], None

    def unflatten(values: Iterable[Any], _: Any) -> Any:
        return cls(**dict(zip(names, values, strict=True)))

    register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name,
                         flatten_with_keys_fn=flatten_with_keys)


def register_constant(cls: type) -> None:
    """Register a class whose instances are part of the spec and have no leaves."""
    register_pytree_node(cls, lambda x: ([], x), lambda _, context: context,
                         flatten_with_keys_fn=lambda x: ([], x))


def is_namedtuple_class(cls: type) -> bool:
    """Return whether a class is a named tuple class."""
    names = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type) and issubclass(cls, tuple) and isinstance(names, tuple)
        and all(isinstance(name, str) for name in names)
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Return whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    """Return whether an object is a named tuple or a named tuple class."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Return whether a class is a CPython struct sequence, such as `time.struct_time`."""
    return (
        isinstance(cls, type) and cls.__bases__ == (tuple,)
        and isinstance(getattr(cls, "n_fields", None), int)
        and isinstance(getattr(cls, "n_sequence_fields", None), int)
    )


def is_structseq_instance(obj: object) -> bool:
    """Return whether an object is a struct sequence."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    """Return whether an object is a struct sequence or a struct sequence class."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def _get_node_type(tree: Any) -> Any:
    cls = type(tree)
    return namedtuple if is_namedtuple_class(cls) else cls  # even if registered itself


def _list_flatten(d: list[Any]) -> tuple[list[Any], None]:
    return d, None


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[KeyEntry, Any]], list[Any]]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _defaultdict_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], list[Any]]:
    children, keys = _dict_flatten_with_keys(d)
    return children, [d.default_factory, keys]


def _build_flatten_with_keys(context: Callable[[Any], Any]) -> FlattenWithKeysFn:
    return lambda x: ([(SequenceKey(k), value) for k, value in enumerate(x)], context(x))


def _namedtuple_flatten_with_keys(x: Any) -> tuple[list[tuple[KeyEntry, Any]], Any]:
    names = zip(type(x)._fields, x, strict=True)
    return [(GetAttrKey(name), value) for name, value in names], type(x)


def _register_builtins() -> None:
    built_in: dict[Any, tuple[FlattenFn, UnflattenFn, FlattenWithKeysFn, str]] = {
        tuple: (lambda x: (list(x), None), lambda values, _: tuple(values),
                _build_flatten_with_keys(lambda _: None), "builtins.tuple"),
        list: (_list_flatten, lambda values, _: list(values),
               _build_flatten_with_keys(lambda _: None), "builtins.list"),
        dict: (_dict_flatten, _dict_unflatten, _dict_flatten_with_keys, "builtins.dict"),
        # All named tuple classes, keyed by the function that creates them.
        namedtuple: (lambda x: (list(x), type(x)), lambda values, kind: kind(*values),
                     _namedtuple_flatten_with_keys, "collections.namedtuple"),
        OrderedDict: (_dict_flatten,
                      lambda values, keys: OrderedDict(zip(keys, values, strict=True)),
                      _dict_flatten_with_keys, "collections.OrderedDict"),
        defaultdict: (lambda x: (list(x.values()), [x.default_factory, list(x)]),
                      lambda values, retained: defaultdict(
                          retained[0], zip(retained[1], values, strict=True)),
                      _defaultdict_flatten_with_keys, "collections.defaultdict"),
        deque: (lambda x: (list(x), x.maxlen),
                lambda values, maxlen: deque(values, maxlen=maxlen),
                _build_flatten_with_keys(lambda x: x.maxlen), "collections.deque"),
    }
    for kind, (flatten, unflatten, with_keys, name) in built_in.items():
        SUPPORTED_NODES[kind] = NodeDef(kind, flatten, unflatten, with_keys, name)
    for cls in RETURN_TYPES.values():
        pytree_register_structseq(cls)


def pytree_register_structseq(cls: Any) -> None:
    """Register a class of named results, such as `torch.max`'s, as a container."""
    register_pytree_node(cls, lambda x: (list(x), None), lambda values, _: cls(values),
                         flatten_with_keys_fn=_build_flatten_with_keys(lambda _: None))


_register_builtins()


# ---------------------------------------------------------------------- flattening and mapping


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether `tree` is a leaf, by its type or by the predicate."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves in order and the spec to rebuild the tree.

    >>> leaves, spec = torch.utils._pytree.tree_flatten({"a": 1, "b": (2, [3])})
    >>> leaves
    [1, 2, 3]
    >>> torch.utils._pytree.tree_unflatten([4, 5, 6], spec)
    {'a': 4, 'b': (5, [6])}
    """
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    node_type = _get_node_type(tree)
    children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
    return TreeSpec(node_type, context,
                    [_flatten_into(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Rebuild a tree from leaves. Raises ValueError for the wrong number of leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterable[Any]:
    """Yield the leaves in order."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves in order."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure of a tree without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the leaves of all arguments in order."""
    return [*tree_leaves(args), *tree_leaves(list(kwargs.values()))]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Return a tree of func(leaf, matching subtree of each of `rests`...).

    >>> torch.utils._pytree.tree_map(lambda x: 2 * x, {"a": 1, "b": (2, [3])})
    {'a': 2, 'b': (4, [6])}
    >>> torch.utils._pytree.tree_map(lambda x, y: (x, y), [1, 2], [(3,), (4,)])
    [(1, (3,)), (2, (4,))]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call func on the leaves as `tree_map` does; return the tree unchanged."""
    leaves, spec = tree_flatten(tree, is_leaf)
    deque(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]), maxlen=0)
    return tree


def map_only(kind: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Restrict a function to leaves of a type, or to those selected by a predicate."""
    picks = _match_kind(kind)
    return lambda func: lambda x: func(x) if picks(x) else x


def _match_kind(kind: Any) -> Callable[[Any], bool]:
    if callable(kind) and not isinstance(kind, type):
        return kind
    return lambda x: isinstance(x, kind)


def tree_map_only(
    kind: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """Apply `tree_map` to leaves of a type (or selected by a predicate) and keep the others."""
    return tree_map(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    kind: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """Apply `tree_map_` to leaves of a type (or selected by a predicate)."""
    return tree_map_(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether a predicate holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether a predicate holds for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Return whether a predicate holds for every leaf of a type."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, kind))


def tree_any_only(
    kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Return whether a predicate holds for any leaf of a type."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, kind))


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """Flatten a tree that is a prefix of a spec, repeating each leaf for the spec's leaves below
    it. Return None if the tree is not a prefix."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf():
        return None
    node_type = _get_node_type(tree)
    children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
    if (node_type, context, len(children)) != (treespec.type, treespec.context,
                                               treespec.num_children):
        return None
    leaves: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        repeated = _broadcast_to_and_flatten(child, spec, is_leaf)
        if repeated is None:
            return None
        leaves += repeated
    return leaves


# ---------------------------------------------------------------------------------- with paths


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return (path, leaf) for each leaf in order; see `keystr`."""
    return list(_iter_with_path((), tree, is_leaf))


def _iter_with_path(path: KeyPath, tree: Any, is_leaf: IsLeaf) -> Iterable[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    flatten = SUPPORTED_NODES[_get_node_type(tree)].flatten_with_keys_fn
    if flatten is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in flatten(tree)[0]:
        yield from _iter_with_path((*path, key), child, is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return (path, leaf) for each leaf, and the spec to rebuild the tree."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """Apply `tree_map` with a function that takes the leaf's path first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    subtrees = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(map(func, paths, leaves, *subtrees))


# ------------------------------------------------------------------------------------- as text


def treespec_pprint(treespec: TreeSpec) -> str:
    """Format a spec as its container with * for leaves."""
    return repr(treespec.unflatten([_LEAF] * treespec.num_leaves))


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Serialize a spec as JSON. Raises NotImplementedError for a class without a name."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec "
            f"but got item of type {type(treespec)}."
        )
    version = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    if version != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {version}. Available protocols: [1]")
    return json.dumps((version, _to_schema(treespec)))


def _to_schema(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    if spec.type not in SUPPORTED_NODES:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    node = SUPPORTED_NODES[spec.type]
    if node.serialized_type_name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    dump = node.to_dumpable_context
    return {
        "type": node.serialized_type_name,
        "context": json.dumps(spec.context) if dump is None else dump(spec.context),
        "children_spec": [_to_schema(child) for child in spec.children_specs],
    }


def _dump_namedtuple(cls: type) -> str:
    node = SUPPORTED_NODES.get(cls)
    if node is None or node.serialized_type_name is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a "
            "serializated_type_name. Please register using `_register_namedtuple`."
        )
    return node.serialized_type_name


def _load_namedtuple(name: str) -> Any:
    for cls, node in SUPPORTED_NODES.items():
        if node.serialized_type_name == name and cls is not namedtuple:
            return cls
    raise NotImplementedError(
        f"Can't deserialize TreeSpec of namedtuple class {name} because we couldn't find a "
        "serializated name."
    )


def _dump_defaultdict(context: list[Any]) -> str:
    factory, keys = context
    return json.dumps({"default_factory_module": factory.__module__,
                       "default_factory_name": factory.__qualname__, "dict_context": keys})


def _load_defaultdict(text: str) -> list[Any]:
    context = json.loads(text)
    module = importlib.import_module(context["default_factory_module"])
    return [getattr(module, context["default_factory_name"]), context["dict_context"]]


for _kind, _dump, _load in ((namedtuple, _dump_namedtuple, _load_namedtuple),
                            (defaultdict, _dump_defaultdict, _load_defaultdict)):
    SUPPORTED_NODES[_kind] = SUPPORTED_NODES[_kind]._replace(
        to_dumpable_context=_dump, from_dumpable_context=_load)


def treespec_loads(serialized: str) -> TreeSpec:
    """Load a spec written by `treespec_dumps`."""
    version, schema = json.loads(serialized)
    if version != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {version}. Available protocols: [1]")
    return _read_schema(schema)


def _read_schema(schema: dict[str, Any]) -> TreeSpec:
    name = schema["type"]
    if name is None:
        return _LEAF
    nodes = {n.serialized_type_name: n for n in SUPPORTED_NODES.values() if n.serialized_type_name}
    if name not in nodes:
        raise NotImplementedError(
            f"Deserializing {name} in pytree is not registered. Only registered types can be "
            "deserialized."
        )
    node, text = nodes[name], schema["context"]
    load = node.from_dumpable_context
    context = json.loads(text) if load is None else load(text)
    return TreeSpec(node.type, context, [_read_schema(child) for child in schema["children_spec"]])
