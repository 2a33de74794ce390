"""Immutable lists and dicts for node arguments: changes must go through the node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from ..utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]

_ADVICE = """\
'{}' object does not support mutation. If you are attempting to modify the kwargs or args of a \
torch.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args"""


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(_ADVICE.format(type(self).__name__))


class immutable_list(list):
    """A list that raises TypeError on mutation.

    >>> immutable_list([1, 2]).append(3)
    Traceback (most recent call last):
    TypeError: 'immutable_list' object does not support mutation. If you are attempting to ...
    """

    def __reduce__(self) -> tuple[type, tuple]:
        return type(self), (tuple(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


class immutable_dict(dict):
    """A dict that raises TypeError on mutation.

    >>> immutable_dict(a=1)["a"]
    1
    """

    def __reduce__(self) -> tuple[type, tuple]:
        return type(self), (tuple(self.items()),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def _forbid(cls: type, methods: Iterable[str]) -> None:
    for name in methods:
        setattr(cls, name, _refuse)


_forbid(immutable_list, (
    "__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend", "insert",
    "pop", "remove", "reverse", "sort",
))
_forbid(immutable_dict, (
    "__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update",
))

_pytree.register_pytree_node(
    immutable_list, lambda x: (list(x), None), lambda values, _: immutable_list(values),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=_pytree.SUPPORTED_NODES[list].flatten_with_keys_fn,
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda x: (list(x.values()), list(x)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_pytree.SUPPORTED_NODES[dict].flatten_with_keys_fn,
)
