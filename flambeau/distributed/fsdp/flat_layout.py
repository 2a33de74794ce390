"""FlatLayout: where the parameters of a unit lie in its flat parameter, and in each shard."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...nn.module import Module
from ...nn.parameter import Parameter
from ...tensor import Tensor

_ALIGNMENT_BYTES = 16


class FlatParameter(Parameter):
    """The parameters of a unit in one dimension; between steps, this process's shard of them."""


@dataclass
class Segment:
    """A parameter's place in a flat parameter.

    `places` are the modules that own it, with its names there; `paths` its names below the unit.
    """

    shape: tuple[int, ...]
    start: int
    requires_grad: bool
    parameter: Parameter
    places: list[tuple[Module, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def stop(self) -> int:
        """The index after the last element."""
        return self.start + math.prod(self.shape)

    def of(self, flat: np.ndarray) -> np.ndarray:
        """Return the parameter as a view of the flat array."""
        return flat[self.start : self.stop].reshape(self.shape)

    def flatten(self, whole: np.ndarray, own: slice, shard_start: int) -> np.ndarray:
        """Return the elements of the whole parameter that lie in a shard, at `own` there."""
        begin = max(0, shard_start - self.start)
        return whole.reshape(-1)[begin : begin + own.stop - own.start]

    def within(self, shard_start: int, shard_length: int) -> slice:
        """Return the part of a shard that belongs to the parameter; it may be empty."""
        start = min(max(self.start - shard_start, 0), shard_length)
        return slice(start, min(max(self.stop - shard_start, start), shard_length))


@dataclass
class FlatLayout:
    """The segments of a flat parameter, whose `length` is a multiple of the number of shards."""

    segments: list[Segment]
    length: int
    shards: int

    @property
    def shard_length(self) -> int:
        """The number of elements of each shard."""
        return self.length // self.shards


def lay_out(
    owned: Iterable[tuple[str, Module, str, Parameter]], shards: int, aligns: bool, item_bytes: int,
) -> FlatLayout:
    """Place parameters one after another. With `aligns`, each starts on a 16-byte boundary."""
    by_id: dict[int, Segment] = {}
    unit = max(1, _ALIGNMENT_BYTES // item_bytes) if aligns else 1
    end = 0
    for path, module, name, parameter in owned:
        segment = by_id.get(id(parameter))
        if segment is None:
            start = -(-end // unit) * unit
            segment = by_id[id(parameter)] = Segment(
                tuple(parameter.shape), start, parameter.requires_grad, parameter
            )
            end = segment.stop
        segment.places.append((module, name))
        segment.paths.append(path)
    return FlatLayout(list(by_id.values()), -(-end // shards) * shards, shards)


def check_uniform(segments: Sequence[Any], is_flattened: bool) -> None:
    """Raise ValueError if parameters cannot share a flat parameter."""
    parameters: list[Tensor] = [segment.parameter for segment in segments]
    for parameter in parameters:
        if not parameter.is_floating_point():
            raise ValueError("Cannot flatten integer dtype tensors")
    dtypes = {parameter.dtype for parameter in parameters}
    if len(dtypes) > 1:
        kinds = ", ".join(sorted(map(str, dtypes)))
        raise ValueError(f"Must flatten tensors with uniform dtype but got {kinds}")
    if is_flattened and len({parameter.requires_grad for parameter in parameters}) > 1:
        error = ValueError("Must flatten tensors with uniform `requires_grad` when "
                           "`use_orig_params=False`")
        error.add_note("Pass use_orig_params=True to mix frozen and trained parameters in a unit.")
        raise error


def iterate_owned_parameters(
    root: Module, is_excluded: Any, ignored: set[int]
) -> Iterator[tuple[str, Module, str, Parameter]]:
    """Yield (path, module, name, parameter) below a module, without the modules of other units."""

    def visit(module: Module, prefix: str) -> Iterator[tuple[str, Module, str, Parameter]]:
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in ignored:
                yield prefix + name, module, name, parameter
        for name, child in module._modules.items():
            if child is not None and not is_excluded(child):
                yield from visit(child, f"{prefix}{name}.")

    return visit(root, "")
