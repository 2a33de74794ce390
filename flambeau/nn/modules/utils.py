"""Shared by layers: sizes given as a number or a tuple, and how a layer prints its settings.

PyTorch programs import the underscored names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    """Return a function that repeats a number `n` times as a tuple; sequences become tuples."""

    def parse(x: Any) -> tuple:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")
_sextuple = _ntuple(6, "_sextuple")


def _reverse_repeat_tuple(t: Iterable, n: int) -> tuple:
    """Repeat each element `n` times, last first: (1, 2) gives (2, 2, 1, 1), the order of F.pad."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """Replace each None in `out_size` by the default at the same place from the end."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [d if v is None else v for v, d in zip(out_size, last, strict=True)]


def format_settings(module: Any, *names: str) -> str:
    """`name=value` of the attributes, as `extra_repr` prints them."""
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Strip `prefix` from the keys of a state_dict that start with it, in place.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> sorted(state)
    ['bias', 'weight']
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    # The metadata of the module itself is stored under the prefix without its dot.
    for key in [key for key in metadata if key]:
        if key == prefix.replace(".", "") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
