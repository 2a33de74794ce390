"""local_map: apply a function of plain tensors to each process's parts of DTensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ....tensor import Tensor
from ....utils._pytree import tree_flatten, tree_unflatten
from ...device_mesh import DeviceMesh
from ..dtensor import DTensor
from ..placement_types import Placement

__all__ = ["local_map"]

Placements = Sequence[Placement] | None


def local_map(
    func: Callable | None = None, out_placements: Any = None,
    in_placements: tuple[Placements, ...] | None = None,
    in_grad_placements: tuple[Placements, ...] | None = None,
    device_mesh: DeviceMesh | None = None, *, redistribute_inputs: bool = False,
) -> Any:
    """Return a function that runs `func` on the local parts and wraps what it returns.

    Without a DTensor among the arguments, `func` runs as it is. Nothing is communicated, unless
    inputs are redistributed. Without `func`, return a decorator.

    Args:
        func: A function of plain tensors.
        out_placements: The placements of its result; a tuple with the placements of each tensor,
            and None for anything else, if it returns several values.
        in_placements: The placements that each argument must have, None where it is no tensor.
        in_grad_placements: The placements of the gradients that reach the local parts, by default
            those of the arguments.
        device_mesh: The mesh of the results, by default that of the first DTensor.
        redistribute_inputs: Whether to redistribute arguments with other placements.

    Raises ValueError for an argument with other placements, AssertionError where placements and
    values do not match.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor
    >>> from flambeau.distributed.tensor.experimental import local_map
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> normalize_rows = local_map(lambda x: x / x.sum(1, keepdim=True), out_placements=[Shard(0)])
    >>> normalize_rows(distribute_tensor(torch.ones(2, 4), mesh, [Shard(0)])).to_local()[0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    >>> torch.distributed.destroy_process_group()

    Source: https://docs.pytorch.org/docs/2.13/distributed.tensor.html
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs)

    @functools.wraps(func)
    def run_on_parts(*args: Any, **kwargs: Any) -> Any:
        flat, structure = tree_flatten(args)
        _check_inputs(flat, in_placements)
        distributed = [x for x in flat if isinstance(x, DTensor)]
        parts = list(flat)
        for i, x in enumerate(flat):
            if isinstance(x, DTensor):
                if in_placements is not None:
                    x = _match_placements(x, in_placements[i], redistribute_inputs)
                parts[i] = x.to_local() if in_grad_placements is None else \
                    _take_part(x, in_grad_placements[i])
        result = func(*tree_unflatten(parts, structure), **kwargs)
        if not distributed:
            return result
        return _wrap_results(result, device_mesh or distributed[0].device_mesh, out_placements)

    return run_on_parts


def _check_inputs(flat: list[Any], in_placements: tuple[Placements, ...] | None) -> None:
    """Raise AssertionError unless each argument has placements if, and only if, it needs them."""
    if in_placements is None:
        return
    if len(in_placements) != len(flat):
        raise AssertionError(f"in_placements length {len(in_placements)} does not match the number "
                             f"of input args {len(flat)}!")
    for x, placements in zip(flat, in_placements, strict=True):
        if isinstance(x, DTensor) and placements is None:
            raise AssertionError(f"DTensor input {x} expects placements but received None!")
        if not isinstance(x, Tensor) and placements is not None:
            raise AssertionError(
                f"Non-Tensor input {x} expects None placements but received {placements}!")


def _match_placements(x: DTensor, expected: Any, redistribute_inputs: bool) -> DTensor:
    """Return an argument in the placements that the function expects."""
    if x.placements == tuple(expected):
        return x
    if not redistribute_inputs:
        raise ValueError(
            f"arg {x} in local_map has a mismatched placements: arg placements is "
            f"{x.placements} but the input placements is {tuple(expected)}! If "
            "redistribute_inputs is wanted, set redistribute_inputs=True to local_map.")
    return x.redistribute(placements=tuple(expected))


def _take_part(x: DTensor, grad_placements: Placements) -> Tensor:
    """Return the local part of an argument, whose gradient comes back in these placements."""
    if grad_placements is None:
        raise AssertionError(f"DTensor input {x} expects in grad placements but received None!")
    return x.to_local(grad_placements=tuple(grad_placements))


def _wrap_results(result: Any, mesh: DeviceMesh, out_placements: Any) -> Any:
    """Return the function's results with each tensor as a DTensor."""
    flat, structure = tree_flatten(result)
    placements = out_placements if isinstance(out_placements, tuple) else (out_placements,)
    if len(flat) != len(placements):
        raise AssertionError(
            "local_map requires one PlacementType be provided for each output value, received "
            f"{len(placements)} out_placements but {len(flat)} is expected!")
    wrapped = [_wrap(y, mesh, p) for y, p in zip(flat, placements, strict=True)]
    return tree_unflatten(wrapped, structure)


def _wrap(y: Any, mesh: DeviceMesh, placements: Placements) -> Any:
    if isinstance(y, DTensor):
        raise AssertionError(f"torch.Tensor output expected but received {type(y)}: {y}")
    if isinstance(y, Tensor):
        return DTensor.from_local(y, mesh, placements)
    if placements is not None:
        raise AssertionError(
            f"Non-tensor output {y} expects None placements but received {placements}!")
    return y
