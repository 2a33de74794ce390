"""torch.export._tree_utils: comparison of the trees of inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..utils._pytree import TreeSpec

__all__ = ["is_equivalent", "reorder_kwargs"]


def reorder_kwargs(user_kwargs: dict[str, Any], spec: TreeSpec) -> dict[str, Any]:
    """Return keyword arguments in the order of a program's `in_spec`, that of (args, kwargs).

    Raises ValueError if the names differ.
    """
    if spec.type is not tuple:
        raise AssertionError(f"Expected spec type to be tuple, but got {spec.type}")
    if spec.num_children != 2:
        raise AssertionError(f"Expected spec to have 2 children, but got {spec.num_children}")
    names = spec.children()[1]
    if names.type is not dict:
        raise AssertionError(f"Expected kwargs_spec type to be dict, but got {names.type}")
    if set(user_kwargs) != set(names.context):
        raise ValueError("Ran into a kwarg keyword mismatch: Got the following keywords "
                         f"{list(user_kwargs)} but expected {names.context}")
    return {name: user_kwargs[name] for name in names.context}


def is_equivalent(
    spec1: TreeSpec, spec2: TreeSpec,
    equivalence_fn: Callable[[type | None, Any, type | None, Any], bool],
) -> bool:
    """Return whether `equivalence_fn(type1, context1, type2, context2)` holds in all of a tree."""
    if not equivalence_fn(spec1.type, spec1.context, spec2.type, spec2.context):
        return False
    if spec1.num_children != spec2.num_children:
        return False
    pairs = zip(spec1.children(), spec2.children(), strict=True)
    return all(is_equivalent(a, b, equivalence_fn) for a, b in pairs)
