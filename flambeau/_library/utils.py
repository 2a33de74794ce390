"""torch._library.utils: questions about operators and their schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .. import ops
from ..library import _qualified
from ..ops.registration.entry_types import OpOverload
from ..ops.registration.schema import Argument, Schema
from ..ops.registration.tags import Tag

__all__ = [
    "Kernel", "RegistrationHandle", "fill_defaults", "is_builtin", "is_functional_schema",
    "is_inplace", "is_out", "is_tensor_like_type", "is_tensorlist_like_type", "lookup_op",
    "mutated_args_kwargs", "mutates_and_returns_first_arg", "parse_namespace", "zip_schema",
]

_LISTS = {"List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]",
          "Optional[List[Optional[Tensor]]]"}


class Kernel(NamedTuple):
    """A function, and the file and line where it was registered."""

    func: Callable
    source: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


class RegistrationHandle:
    """What a registration returns: `destroy()` takes it back."""

    def __init__(self, on_destroy: Callable[[], None]) -> None:
        self._on_destroy = on_destroy

    def destroy(self) -> None:
        """Take the registration back."""
        self._on_destroy()


def parse_namespace(qualname: str) -> tuple[str, str]:
    """Split `namespace::name`. Raises ValueError for another form.

    >>> from flambeau._library.utils import parse_namespace
    >>> parse_namespace("aten::sin")
    ('aten', 'sin')
    """
    return _qualified(qualname)


def lookup_op(qualname: str) -> Any:
    """Return the operator `namespace::name` or `namespace::name.overload`; AttributeError if there
    is none.

    >>> from flambeau._library.utils import lookup_op
    >>> lookup_op("aten::add.Tensor")
    <OpOverload(op='aten.add', overload='Tensor')>
    """
    space, name = parse_namespace(qualname)
    name, _, overload = name.partition(".")
    return getattr(getattr(getattr(ops, space), name), overload or "default")


def is_builtin(op: Any) -> bool:
    """Return whether an operator is PyTorch's own."""
    if not isinstance(op, OpOverload):
        raise AssertionError(f"op must be OpOverload, got {type(op)}")
    return op.namespace in ("aten", "prim", "prims")  # type: ignore[attr-defined]


def is_out(op: Any) -> bool:
    """Return whether an operator writes its results to arguments for that purpose."""
    return Tag.out in op.tags


def is_inplace(op: Any) -> bool:
    """Return whether an operator writes to its first argument and returns it."""
    return Tag.inplace in op.tags


def is_functional_schema(schema: Any, *, allow_valid_view: bool = False) -> bool:
    """Return whether an operator writes to no argument and returns something other than views.

    `schema`: a text, or a schema of flambeau or torchgen. With `allow_valid_view`, a view of the
    only tensor that is the only result counts as functional.

    >>> from flambeau._library.utils import is_functional_schema
    >>> is_functional_schema("f(Tensor x) -> Tensor"), is_functional_schema("f(Tensor x) -> ()")
    (True, False)
    """
    if isinstance(schema, str):
        schema = Schema("", schema)
    if not isinstance(schema, Schema):
        schema = Schema("", str(schema))  # torchgen's
    if schema.is_mutable:
        return False
    if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
        tensors = [sum(a.kind == "Tensor" for a in part)
                   for part in (schema.arguments, schema.returns)]
        return allow_valid_view and tensors == [1, 1]
    return bool(schema.returns)


def is_tensorlist_like_type(typ: Any) -> bool:
    """Return whether a type of a schema is that of a list of tensors, which may be missing."""
    return typ.annotation_str in _LISTS


def is_tensor_like_type(typ: Any) -> bool:
    """Return whether a type of a schema is that of a tensor, which may be missing."""
    return typ.annotation_str in ("Tensor", "Optional[Tensor]")


def mutates_and_returns_first_arg(op: Any) -> bool:
    """Return whether an operator of aten writes to its first argument alone and returns it.

    >>> from flambeau._library.utils import lookup_op, mutates_and_returns_first_arg
    >>> mutates_and_returns_first_arg(lookup_op("aten::sin_"))
    True
    """
    schema = op._schema
    if op.namespace != "aten" or len(schema.returns) != 1 or not schema.arguments:
        return False
    returned, first = schema.returns[0].alias_info, schema.arguments[0].alias_info
    if returned is None or first is None or not first.is_write:
        return False
    same = len(first.after_set) == 1 and returned.after_set == first.after_set
    return same and all(a.alias_info is None for a in schema.arguments[1:])


def fill_defaults(schema: Schema, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
    """Return a call's arguments with the defaults of those that are missing."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    rest = [a.default_value for a in positional[len(args):]]
    named = {a.name: kwargs.get(a.name, a.default_value)
             for a in schema.arguments if a.kwarg_only}
    return (*args, *rest), named


def zip_schema(
    schema: Schema, args: tuple, kwargs: dict[str, Any]
) -> Iterator[tuple[Argument, Any]]:
    """Yield each argument of the schema that a call passes, with its value."""
    if len(schema.arguments) < len(args) + len(kwargs):
        raise AssertionError(f"schema has {len(schema.arguments)} arguments but got {len(args)} "
                             f"args and {len(kwargs)} kwargs")
    for i, argument in enumerate(schema.arguments):
        if argument.kwarg_only or i >= len(args):
            if argument.name in kwargs:
                yield argument, kwargs[argument.name]
        else:
            yield argument, args[i]


def mutated_args_kwargs(schema: Schema) -> tuple[list[int], list[str]]:
    """Return the positions of the positional arguments that calls write to, and the names of the
    keyword-only ones."""
    positions = [i for i, a in enumerate(schema.arguments) if a.is_written and not a.kwarg_only]
    return positions, [a.name for a in schema.arguments if a.is_written and a.kwarg_only]
