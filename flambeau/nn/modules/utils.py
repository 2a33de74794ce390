"""What the layers share: sizes given as a number or a tuple, and how a layer prints its settings.

The underscored names are those by which PyTorch programs import them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    """A function that turns a number into a tuple of `n` of it, and leaves a sequence as it is."""

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
    """Each element `n` times, last first: (1, 2) and 2 give (2, 2, 1, 1), the order of `F.pad`."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """`out_size` with each None replaced by the default at the same place from the end."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [d if v is None else v for v, d in zip(out_size, last, strict=True)]


def _settings(module: Any, *names: str) -> str:
    """`name=value` of the attributes, as `extra_repr` prints them."""
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take `prefix` off the keys of a state_dict that start with it, in place.

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
    # The metadata of the module itself is filed under the prefix without its dot.
    for key in [key for key in metadata if key]:
        if key == prefix.replace(".", "") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
