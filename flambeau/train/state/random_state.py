"""Save and restore random state: flambeau's, Python's, NumPy's, and a loader's generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ...tensor.random.generator import Generator, default_generator


def find_generators(data: Any) -> list[Generator]:
    """Return the distinct generators of a loader and its samplers."""
    batch_sampler = getattr(data, "batch_sampler", None)
    owners = (data, getattr(data, "sampler", None), batch_sampler,
              getattr(batch_sampler, "sampler", None))
    generators = [getattr(owner, "generator", None) for owner in owners]
    return list({id(g): g for g in generators if isinstance(g, Generator)}.values())


def read_random_state(data: Any = None) -> dict[str, Any]:
    """Return all random states, including the loader's own generators."""
    return {
        "default": default_generator.get_state(),
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "loader": [generator.get_state() for generator in find_generators(data)],
    }


def convert_to_plain(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state with NumPy's words as Python numbers, which any checkpoint can hold."""
    name, keys, *rest = state["numpy"]
    return {**state, "numpy": (name, np.asarray(keys).tolist(), *rest)}


def set_random_state(state: dict[str, Any], data: Any = None) -> None:
    """Restore a state returned by `read_random_state`."""
    default_generator.set_state(state["default"])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.asarray(keys, np.uint32), *rest))
    for generator, saved in zip(find_generators(data), state["loader"], strict=False):
        generator.set_state(saved)
