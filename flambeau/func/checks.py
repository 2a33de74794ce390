"""Checks of the arguments and results of transformed functions."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from ..tensor.tree import get_leaves
from ..utils import _pytree


def parse_argnums(argnums: Any, count: int) -> list[int]:
    """Return the argument positions that `argnums` names, counted from 0.

    Raise RuntimeError if it is not an int or a tuple of ints, is empty, out of range, or has
    duplicates.
    """
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    positions = (argnums,) if isinstance(argnums, int) else argnums
    result = [_position(i, count) for i in positions]
    if not result:
        raise RuntimeError("argnums must be non-empty")
    if len(set(result)) != len(result):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return result


def _position(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def list_outputs(result: Any, call: str) -> list[Tensor]:
    """Return a function's result as a list of tensors.

    Raise RuntimeError naming `call` if it is empty or holds anything but tensors.
    """
    outputs = get_leaves(result)
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(f"{call}: Expected f to be a function that has non-empty output "
                           f"(got output = {outputs})")
    for x in outputs:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{call}: expected f(*primals) to return only tensors, got "
                               f"unsupported type {type(x)}")
    return outputs


def split_aux(result: Any, has_aux: bool, call: str) -> tuple[Any, Any]:
    """Return (output, aux); aux is None without `has_aux`. Raise RuntimeError on a mismatch."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{call}: output of function f should be a tuple: (output, aux) if "
                           "has_aux is True")
    for x in get_leaves(result[1]):
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
    return result


def check_scalar(y: Any) -> None:
    """Raise RuntimeError unless `y`, the value to differentiate, is a 0-d tensor."""
    prefix = "grad_and_value(f)(*args): Expected f(*args) to return a"
    if not isinstance(y, Tensor):
        raise RuntimeError(f"{prefix} Tensor, got {type(y)}")
    if y.dim() != 0:
        raise RuntimeError(f"{prefix} scalar Tensor, got tensor with {y.dim()} dims. Maybe you "
                           "wanted to use the vjp or jacrev APIs instead?")


def check_real(tree: Any, name: str, what: str) -> None:
    """Raise RuntimeError if any of the `what` ("inputs" or "outputs") is complex."""
    for i, x in enumerate(get_leaves(tree)):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(f"{name}: Expected all {what} to be real but received complex "
                               f"tensor at flattened input idx: {i}")


def check_cotangents(supplied: Any, outputs: Any) -> None:
    """Raise RuntimeError if cotangents differ in structure from the outputs."""
    expected, structure = _pytree.tree_structure(outputs), _pytree.tree_structure(supplied)
    if structure != expected:
        raise RuntimeError("Expected pytree structure of cotangents to be the same as pytree "
                           "structure of outputs to the function. cotangents: "
                           f"{_pytree.treespec_pprint(structure)}, primal output: "
                           f"{_pytree.treespec_pprint(expected)}")


def are_tensors(values: tuple) -> bool:
    """Return whether all values are tensors."""
    for x in values:  # noqa: SIM110 - jvp of a small function takes microseconds
        if not isinstance(x, Tensor):
            return False
    return True


def check_tangents(primals: Any, tangents: Any) -> None:
    """Raise RuntimeError if jvp's tangents do not match its primals in structure."""
    call = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{call}: Expected primals to be a tuple. E.g. it should be valid to "
                           "call f(*primals).")
    if tangents.__class__ is tuple and 0 < len(primals) == len(tangents) and primals.__class__ \
            is tuple and are_tensors(primals) and are_tensors(tangents):
        return
    expected, structure = _pytree.tree_structure(primals), _pytree.tree_structure(tangents)
    if structure != expected:
        raise RuntimeError(f"{call}: Expected primals and tangents to have the same python "
                           "structure. For example, if primals is a tuple of 3 tensors, tangents "
                           f"also must be. Got primals with structure {expected} and tangents with "
                           f"structure {structure}")
    for name, tree in (("primals", primals), ("tangents", tangents)):
        leaves = get_leaves(tree)
        if not leaves:
            raise RuntimeError(f"{call}: Expected {name} to contain at least one Tensor.")
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"{call}: Expected {name} to only contain Tensors, got "
                                   f"{type(x)}")
