"""torch.fx._pytree: flatten a tree according to a spec known in advance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..utils import _pytree as pytree

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

_FLATTEN: dict[type, Callable[[Any, Any], list]] = {}


def register_pytree_flatten_spec(
    cls: type, flatten_fn_spec: Callable[[Any, Any], list], flatten_fn_exact_match_spec: Any = None
) -> None:
    """Register how to list a container's children, given the tree and its spec."""
    _FLATTEN[cls] = flatten_fn_spec


def tree_flatten_spec(tree: Any, spec: Any) -> list:
    """Return the leaves of a tree that the spec names, in the spec's order.

    >>> spec = torch.utils._pytree.tree_flatten([1, {"a": 2}])[1]
    >>> tree_flatten_spec([5, {"a": 6, "b": 7}], spec)
    [5, 6]
    """
    if spec.is_leaf():
        return [tree]
    flatten = _FLATTEN.get(spec.type, _children)
    leaves: list = []
    for child, child_spec in zip(flatten(tree, spec), spec.children(), strict=True):
        leaves += tree_flatten_spec(child, child_spec)
    return leaves


def _children(tree: Any, spec: Any) -> list:
    """Return the children named by the spec; ignore extra keys and items."""
    kind = spec.type if isinstance(spec.type, type) else tuple  # namedtuple is a function
    if issubclass(kind, dict):  # `tree` itself may be a proxy
        return [tree[key] for key in spec.context]
    if issubclass(kind, (list, tuple)):
        return [tree[i] for i in range(spec.num_children)]
    nodes = pytree.SUPPORTED_NODES
    if type(tree) in nodes:
        return list(nodes[type(tree)].flatten_fn(tree)[0])
    raise RuntimeError(
        f"{type(tree)} does not have a flatten_fn_spec associated with it. Please register one "
        "with torch.fx._pytree.register_pytree_flatten_spec.  If you have serialized your model, "
        "make sure that any custom pytrees have been registered before loading it."
    )
