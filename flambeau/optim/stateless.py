"""swap_in_optimizer_params_and_state: run an optimizer temporarily on other parameters."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ..tensor import Tensor
from .optimizer import Optimizer

_NAME = "swap_in_optimizer_params_and_state"


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
) -> Iterator[None]:
    """Context in which `optimizer` uses these parameters, in the order of its groups, and the state
    and options of a `state_dict`. Restores its own at the end.

    Raises RuntimeError if the optimizer has no state yet or the parts do not match.

    >>> weight, other = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    >>> swap = torch.optim.swap_in_optimizer_params_and_state
    >>> optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
    >>> weight.grad = torch.ones(1)
    >>> optimizer.step()
    >>> with swap(optimizer, {"weight": other}, optimizer.state_dict()):
    ...     other.grad = torch.ones(1)
    ...     optimizer.step()
    >>> weight.item(), other.item()
    (0.5, 0.050000011920928955)
    """
    state, groups = _check_packed(optimizer, swapin_parameters, swapin_optim_state)
    own_state = optimizer.state
    own_groups = [dict(group) for group in optimizer.param_groups]
    try:
        swapped: defaultdict[Tensor, Any] = defaultdict(dict)
        for live, (packed, params) in zip(optimizer.param_groups, groups, strict=True):
            live.update({**packed, "params": params})
            for param, index in zip(params, packed["params"], strict=True):
                swapped[param] = dict(state.get(index, {}))
        optimizer.state = swapped
        yield
    finally:
        for group, saved in zip(optimizer.param_groups, own_groups, strict=True):
            group.clear()
            group.update(saved)
        optimizer.state = own_state


def _check_packed(
    optimizer: Optimizer, parameters: dict[str, Tensor], packed: Any
) -> tuple[dict, list[tuple[dict[str, Any], list[Tensor]]]]:
    """Return the state by number, and each packed group with its parameters."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    if not isinstance(packed, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict.")
    state = _check_state(packed.get("state"))
    groups = packed.get("param_groups")
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group "
            f"dicts, got {type(groups).__name__}."
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live "
            f"optimizer: {len(groups)}, not {len(optimizer.param_groups)}."
        )
    flat, start, known_indices, paired = list(parameters.values()), 0, set(), []
    for index, (live, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        indices = _check_group(index, live, group)
        if start + len(indices) > len(flat):
            raise RuntimeError(
                f"{_NAME} requires the explicit parameter state to match "
                "optimizer.param_groups ordering."
            )
        paired.append((group, flat[start : start + len(indices)]))
        start += len(indices)
        known_indices.update(indices)
    extra = [key for key in state if key not in known_indices]
    if extra:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter "
            f"ids from param_groups[*]['params']; got extra keys {extra!r}."
        )
    return state, paired


def _check_state(state: Any) -> dict:
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter "
            f"ids to per-param state dicts, got {type(state).__name__}."
        )
    if any(isinstance(key, Tensor) for key in state):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style state keyed by packed parameter ids."
        )
    if any(isinstance(k, int) and not isinstance(v, dict) for k, v in state.items()):
        raise RuntimeError(
            f"{_NAME} requires per-parameter optimizer state entries to be dictionaries."
        )
    return state


def _check_group(index: int, live: dict[str, Any], group: Any) -> list[int]:
    if not isinstance(group, dict):
        raise RuntimeError(f"{_NAME} requires each optimizer param group to be a dictionary.")
    indices = group.get("params")
    if not isinstance(indices, list) or not all(isinstance(n, int) for n in indices):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries "
            "keyed by packed parameter ids."
        )
    if len(indices) != len(live["params"]):
        raise RuntimeError(
            f"swapin_optim_state param group {index} has a different number of params than the "
            "live optimizer param group."
        )
    extra = [key for key in group if key not in live]
    missing = [key for key in live if key not in group]
    if extra or missing:
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match "
            f"the live optimizer group keys for group {index}. Keys only in swap-in: {extra}. "
            f"Keys only in live: {missing}."
        )
    return indices
