"""Conditions on number arguments and branches under which calls take the same path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...native.foundation.generated_code import SourceBuilder
from ..proof.guards import Proof
from ..trace.operands import flatten_call, list_numbers
from ..trace.plain_values import write_mismatch


class Conditions:
    """Conditions of a call. `admits(args, kwargs)` returns whether another call meets them."""

    admits: Callable[[tuple, dict[str, Any]], bool]

    def __init__(self, args: tuple, kwargs: dict[str, Any], proof: Proof | None = None,
                 is_free: Callable[[int], bool] = lambda leaf: False) -> None:
        """`proof`: the call's proof. `is_free`: whether a leaf may be any number of its class."""
        source = SourceBuilder()
        source.add("try:")
        _compare_numbers(source, args, kwargs, is_free)
        if proof is not None:
            numbers = {leaf for leaf, _, _ in list_numbers(args, kwargs)}
            _check_decisions(source, proof, numbers)
        source.add("    pass", "except Exception:", "    return False", "return True")
        _, self.admits = source.define("admits(args, kwargs)", "<flambeau conditions>")


def _compare_numbers(source: SourceBuilder, args: tuple, kwargs: dict[str, Any],
                     is_free: Callable[[int], bool]) -> None:
    """Write the comparison of number arguments; a free one only needs the same class."""
    for leaf, key, value in list_numbers(args, kwargs):
        place = f"args[{key}]" if key.__class__ is int else f"kwargs[{key!r}]"
        source.add(f"t{leaf} = {place}", depth=2)
        mismatch = (f"t{leaf}.__class__ is not {type(value).__name__}" if is_free(leaf) else
                    write_mismatch(f"t{leaf}", value, source.name))
        source.add(f"if {mismatch}:", "    return False", depth=2)


def _check_decisions(source: SourceBuilder, proof: Proof, numbers: set[int]) -> None:
    """Write the guards of the branches that the call took. `numbers`: leaves that have names."""
    leaves = dict.fromkeys(leaf for guard in proof.decisions for leaf in guard.list_leaves()
                           if leaf not in numbers)
    if leaves:
        source.names["flatten_call"] = flatten_call
        source.add("leaves = flatten_call(args, kwargs)", depth=2)
        source.add(*(f"t{leaf} = leaves[{leaf}]" for leaf in leaves), depth=2)
    for guard in proof.decisions:
        for name in guard.list_names():
            if name in proof.constants:
                source.names[name] = proof.constants[name]
        source.add(f"if {guard.failure(source.name)}:", "    return False", depth=2)
