"""Sharding propagation: from the placements of an operator's inputs to those of its outputs.

A rule lists the strategies of an operator for one mesh axis: the placement that each output has if
each input has a certain placement, so that every process can run the operator on its own parts.
Replicating everything is a strategy of every operator. Each mesh axis takes one strategy, and the
inputs that do not fit it are redistributed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .placement_types import (
    Partial, Placement, Replicate, Shard, _StridedShard, sharded_dim,
)
from .redistribute import estimate_cost
from .spec import DTensorSpec

__all__ = ["Operation", "Rule", "Strategy", "choose_placements", "partial_sum"]


class Strategy(NamedTuple):
    """Placements along one mesh axis. `outputs`: of all outputs, or a tuple of one for each."""

    outputs: Placement | tuple[Placement | None, ...]
    inputs: tuple[Placement, ...]


@dataclass
class Operation:
    """A call of an operator, with a DTensorSpec for each tensor among its arguments."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: list[DTensorSpec]  # of the tensors, in the order of the arguments
    packet: Any = None
    axis: int = 0  # the mesh axis whose strategies are asked for

    @property
    def parts(self) -> int:
        """The number of processes along the mesh axis."""
        return self.inputs[0].mesh.size(self.axis)

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument by its position or name."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def divides(self, size: int, dim: int, spec: DTensorSpec) -> bool:
        """Return whether the mesh axes that cut an input's axis cut an axis of `size` evenly."""
        parts = self.parts
        for axis, placement in enumerate(spec.placements):
            if axis != self.axis and sharded_dim(placement) == dim:
                parts *= spec.mesh.size(axis)
        return size % parts == 0


@dataclass(frozen=True)
class Rule:
    """How to list an operator's strategies, and how to choose among them.

    `follows`: a strategy needs an input that already is as it wants; otherwise the cheapest counts.
    `accepts_empty`: the operator can run on parts without elements. `lists_strided`: the rule lists
    strided shards itself; to others, they are shards like any.
    """

    strategies: Callable[[Operation], Iterator[Strategy]]
    follows: bool = True
    accepts_empty: bool = False
    lists_strided: bool = False


def choose_placements(
    operation: Operation, rule: Rule | None, fixed_first: bool = False
) -> tuple[list[tuple[Placement, ...]], list[Any]]:
    """Return the placements that each input needs, and those of the outputs by mesh axis.

    `fixed_first`: the operator writes to its first input, whose placements have to stay.
    """
    mesh = operation.inputs[0].mesh
    per_input: list[list[Placement]] = [[] for _ in operation.inputs]
    outputs: list[Any] = []
    for axis in range(mesh.ndim):
        operation.axis = axis
        strategy = _choose(operation, rule, axis, fixed_first)
        outputs.append(strategy.outputs)
        for placements, placement in zip(per_input, strategy.inputs, strict=True):
            placements.append(placement)
    return [tuple(placements) for placements in per_input], outputs


def _choose(operation: Operation, rule: Rule | None, axis: int, fixed_first: bool) -> Strategy:
    """Return the best strategy along one mesh axis."""
    placements = [spec.placements[axis] for spec in operation.inputs]
    best, least = None, math.inf
    replicated = Strategy(Replicate(), (Replicate(),) * len(placements))
    if rule is None:
        if fixed_first and not isinstance(placements[0], Replicate):
            raise _refuse_in_place(operation)
        return replicated
    for strategy in _list_strategies(operation, rule, placements):
        if _is_admissible(operation, rule, strategy, placements, fixed_first):
            cost = _add_costs(operation, strategy)
            if cost < least:
                best, least = strategy, cost
    if fixed_first and not isinstance(placements[0], Replicate):
        if best is None:
            raise _refuse_in_place(operation)
        return best
    if best is None or not rule.follows and _add_costs(operation, replicated) <= least:
        return replicated
    return best


def _add_costs(operation: Operation, strategy: Strategy) -> float:
    return sum(estimate_cost(spec, operation.axis, placement) for spec, placement
               in zip(operation.inputs, strategy.inputs, strict=True))


def _refuse_in_place(operation: Operation) -> RuntimeError:
    placements = operation.inputs[0].placements
    return RuntimeError(
        f"{operation.packet}: in-place operations that require placement changes are not "
        f"supported. The input has placement {placements}, but no valid strategy keeps it. "
        "Please redistribute the tensor first."
    )


def _list_strategies(
    operation: Operation, rule: Rule, placements: Sequence[Placement]
) -> Iterator[Strategy]:
    """Yield the rule's strategies, each also for the strided shards that there are."""
    factors = dict.fromkeys(p.split_factor for p in placements if isinstance(p, _StridedShard)
                            and not rule.lists_strided)
    for strategy in rule.strategies(operation):
        yield strategy
        for factor in factors:
            yield _with_factor(strategy, factor)


def _with_factor(strategy: Strategy, factor: int) -> Strategy:
    """Return the strategy with strided shards instead of plain ones."""
    def replaced(placement: Any) -> Any:
        if isinstance(placement, Shard):
            return _StridedShard(placement.dim, split_factor=factor)
        return placement

    outputs = tuple(map(replaced, strategy.outputs)) if isinstance(strategy.outputs, tuple) \
        else replaced(strategy.outputs)
    return Strategy(outputs, tuple(map(replaced, strategy.inputs)))


def _is_admissible(
    operation: Operation, rule: Rule, strategy: Strategy, placements: Sequence[Placement],
    fixed_first: bool,
) -> bool:
    """Return whether a strategy may be chosen: its parts have elements, and it follows an input."""
    if fixed_first and strategy.inputs[0] != placements[0]:
        return False
    is_followed = fixed_first or not rule.follows
    for spec, now, then in zip(operation.inputs, placements, strategy.inputs, strict=True):
        dim = sharded_dim(then)
        if dim is not None and not (rule.accepts_empty and now == then):
            size, parts = spec.shape[dim], operation.parts
            if (parts - 1) * -(-size // parts) >= size and parts > 1:
                return False
        is_followed = is_followed or (now == then and not isinstance(then, Replicate))
    return is_followed


def partial_sum(placement: Placement) -> bool:
    """Return whether a placement is a sum or an average, which linear operators pass on."""
    return type(placement) is Partial and placement.reduce_op in ("sum", "avg")
