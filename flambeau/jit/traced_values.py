"""The inputs and outputs that traces can have, under TorchScript's names of types."""

from __future__ import annotations

from typing import Any

from ..fx.node import Node
from ..tensor.devices import device
from ..tensor.dtypes import dtype
from ..tensor.tensor import Tensor

__all__ = ["check_input", "check_output_types", "infer_type"]

_NUMBERS = {bool: "bool", int: "int", float: "float", complex: "complex", str: "str",
            type(None): "NoneType", dtype: "int", device: "Device"}
_ENTRIES = ("dict[Union[str, Tensor], Union[Tensor, Tuple[Tensor, ...]]] can be a dictionary "
            "output of a traced function")


def infer_type(value: Any) -> str:
    """Return the type of an input or output. Raises RuntimeError for one that traces lack.

    >>> infer_type((torch.ones(1), [torch.ones(1)]))
    'Tuple[Tensor, List[Tensor]]'
    """
    try:
        return _infer(value)
    except _Unknown as problem:
        raise RuntimeError(f"Tracer cannot infer type of {value}\n:{problem}") from None


class _Unknown(Exception):
    """Says why a value has no type."""


def _infer(value: Any) -> str:
    if isinstance(value, (Tensor, Node)):
        return "Tensor"
    if type(value) in _NUMBERS:
        return _NUMBERS[type(value)]
    if isinstance(value, tuple):
        return f"Tuple[{', '.join(map(_infer, value))}]"
    if isinstance(value, list):
        if not value:
            raise _Unknown("List trace inputs must have elements")
        return f"List[{_agree('List inputs', 'element ', map(_infer, value))}]"
    if isinstance(value, dict):
        if not value:
            raise _Unknown("Dictionary inputs must have entries")
        key, inner = (_agree("Dictionary inputs", "", map(_infer, part))
                      for part in (value.keys(), value.values()))
        return f"Dict[{key}, {inner}]"
    raise _Unknown("Only tensors and (possibly nested) tuples of tensors, lists, or dicts are "
                   "supported as inputs or outputs of traced functions, but instead got value of "
                   f"type {type(value).__name__}.")


def _agree(container: str, part: str, kinds: Any) -> str:
    """Return the type that all have."""
    first, *rest = kinds
    for kind in rest:
        if kind != first:
            raise _Unknown(f"{container} to traced functions must have consistent {part}type. "
                           f"Found {first} and {kind}")
    return str(first)


def check_input(inputs: tuple) -> None:
    """Raise RuntimeError unless all inputs are tensors in lists, tuples and dicts."""
    kind = infer_type(inputs)
    if not all(map(_is_traceable, inputs)):
        raise RuntimeError(f"Type '{kind}' cannot be traced. Only Tensors and (possibly nested) "
                           "Lists, Dicts, and Tuples of Tensors can be traced")


def _is_traceable(value: Any) -> bool:
    if isinstance(value, dict):
        value = tuple(value.values())
    return all(map(_is_traceable, value)) if isinstance(value, (tuple, list)) \
        else isinstance(value, Tensor)


def check_output_types(tree: Any) -> None:
    """Raise RuntimeError for an output that mixes types or has dicts of anything but tensors."""
    infer_type(tree)
    if isinstance(tree, dict):
        for value in tree.values():
            parts = value if isinstance(value, tuple) else (value,)
            if not all(isinstance(part, (Tensor, Node)) for part in parts):
                raise RuntimeError(f"output 1 ({tree}) of traced region cannot be understood by "
                                   f"the tracer, only outputs matching {_ENTRIES}")
