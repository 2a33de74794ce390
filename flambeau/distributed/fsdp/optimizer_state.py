"""Optimizer state over sharded parameters: gather it by parameter name, and shard it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...nn.module import Module
from ...tensor import Tensor
from ...tensor.tensor import wrap
from ..objects import all_gather_object, broadcast_object_list
from .api import StateDictSettings, StateDictType
from .names import clean_tensor_name
from .state_dict import cut_over_group


class _Owner:
    """An optimizer's parameter: the handle and segments behind it, or the name of a plain one."""

    def __init__(self, handle: Any, segments: dict[str, Any], name: str = "") -> None:
        self.handle, self.segments, self.name = handle, segments, name

    @property
    def names(self) -> list[str]:
        return list(self.segments) or [self.name]


def _find_owners(model: Module) -> dict[int, _Owner]:
    """Return what the parameters of a model stand for, by their ids."""
    owners: dict[int, _Owner] = {}
    for path, module in model.named_modules():
        handle = module.__dict__.get("_handle")
        if handle is None:
            continue
        prefix = clean_tensor_name(f"{path}." if path else "")
        segments = {prefix + clean_tensor_name(s.paths[0]): s for s in handle.layout.segments}
        if handle._use_orig_params:
            for name, segment in segments.items():
                owners[id(segment.parameter)] = _Owner(handle, {name: segment})
        else:
            owners[id(handle.flat_param)] = _Owner(handle, segments)
    for name, parameter in model.named_parameters():
        owners.setdefault(id(parameter), _Owner(None, {}, clean_tensor_name(name)))
    return owners


def _take_part(handle: Any, segment: Any, value: Any) -> np.ndarray | None:
    """Return a segment's part of a state tensor; None if the value is no such tensor."""
    own = handle.own_part(segment)
    if not isinstance(value, Tensor) or not value.dim():
        return None
    array = value._array.reshape(-1)
    if not handle._use_orig_params:
        return array[own] if array.size == handle.layout.shard_length else None
    return array if array.size == own.stop - own.start else None


def gather_optimizer_state(
    model: Module, optim: Any, state_dict: dict[str, Any] | None, settings: StateDictSettings
) -> dict[str, Any]:
    """Return the state by parameter names, each tensor whole, or cut if the settings say so.

    All processes must call it.
    """
    state_dict = optim.state_dict() if state_dict is None else state_dict
    owners, whole = _find_owners(model), {}
    ordered = [owners[id(p)] for group in optim.param_groups for p in group["params"]]
    local = [state_dict["state"].get(number, {}) for number in range(len(ordered))]
    for owner, state in zip(ordered, local, strict=True):
        if owner.handle is None:
            if state:
                whole[owner.name] = dict(state)
        else:
            gathered = _gather_owner(owner, state)
            if settings.state_dict_type is StateDictType.SHARDED_STATE_DICT:
                gathered = {name: {key: _cut_value(owner, value) for key, value in values.items()}
                            for name, values in gathered.items()}
            whole.update(gathered)
    config = settings.optim_state_dict_config
    if getattr(config, "rank0_only", False) and _find_rank(model) != 0:
        return {}
    groups, start = [], 0
    for group in state_dict["param_groups"]:
        count = len(group["params"])
        names = [name for owner in ordered[start : start + count] for name in owner.names]
        groups.append({**group, "params": names})
        start += count
    return {"state": whole, "param_groups": groups}


def _cut_value(owner: _Owner, value: Any) -> Any:
    """Return a state tensor as a DTensor; numbers stay as they are."""
    is_number = not isinstance(value, Tensor) or not value.dim()
    return value if is_number else cut_over_group(value, owner.handle.group)


def _find_rank(model: Module) -> int:
    return next(m.rank for m in model.modules() if "_flambeau_settings" in m.__dict__)


def _gather_owner(owner: _Owner, state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Gather the state of one parameter of the optimizer from all processes."""
    handle = owner.handle
    described = {
        key: None if _is_divided(owner, value) else value for key, value in state.items()
    }
    dtypes = {key: value._array.dtype for key, value in state.items()
              if described[key] is None and value is not None}
    reports = [(described, dtypes)]
    if handle.uses_sharded_strategy:
        reports = [({}, {})] * handle.group.size()
        all_gather_object(reports, (described, dtypes), handle.group)
    gathered: dict[str, dict[str, Any]] = {}
    for state_of_rank, dtypes_of_rank in reports:
        for key, value in state_of_rank.items():
            if key in gathered.get(owner.names[0], ()):
                continue
            if key in dtypes_of_rank:
                flat = _gather_key(owner, state.get(key), dtypes_of_rank[key])
                for name, segment in owner.segments.items():
                    gathered.setdefault(name, {})[key] = wrap(segment.of(flat).copy())
            else:
                for name in owner.names:
                    copy = value.clone() if isinstance(value, Tensor) else value
                    gathered.setdefault(name, {})[key] = copy
    return gathered


def _is_divided(owner: _Owner, value: Any) -> bool:
    """Return whether a state tensor has an element per element of the parameter."""
    segment = next(iter(owner.segments.values()))
    return _take_part(owner.handle, segment, value) is not None


def _gather_key(owner: _Owner, value: Any, dtype: np.dtype) -> np.ndarray:
    """Gather one state tensor of a flat parameter, or of a parameter that is part of it."""
    handle = owner.handle
    shard = np.zeros(handle.layout.shard_length, dtype)
    for segment in owner.segments.values() if value is not None else ():
        part = _take_part(handle, segment, value)
        if part is not None:
            shard[handle.own_part(segment)] = part
    return handle.gather_flat(shard)


def shard_optimizer_state(
    model: Module, optim: Any, state_dict: dict[str, Any], settings: StateDictSettings
) -> dict[str, Any]:
    """Return this process's part of a whole state, with the optimizer's parameter numbers."""
    if getattr(settings.optim_state_dict_config, "rank0_only", False):
        box: list[Any] = [state_dict]
        broadcast_object_list(box, 0)
        state_dict = box[0]
    owners = _find_owners(model)
    groups: Sequence[Any] = [{"params": list(model.parameters())}] if optim is None \
        else optim.param_groups
    state: dict[int, Any] = {}
    param_groups, number = [], 0
    for group, saved in zip(groups, state_dict["param_groups"], strict=True):
        numbers = []
        for parameter in group["params"]:
            part = _divide(owners[id(parameter)], state_dict["state"], tuple(parameter.shape))
            if part:
                state[number] = part
            numbers.append(number)
            number += 1
        param_groups.append({**saved, "params": numbers})
    return {"state": state, "param_groups": param_groups}


def _divide(owner: _Owner, state: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return this process's part of the state of one parameter of the optimizer."""
    if owner.handle is None:
        return dict(state.get(owner.name, {}))
    handle, part = owner.handle, {}
    keys = {key: None for name in owner.names for key in state.get(name, {})}
    for key in keys:
        values = {name: state[name][key] for name in owner.names if key in state.get(name, {})}
        full_values = {name: v.full_tensor() if hasattr(v, "full_tensor") else v
                       for name, v in values.items()}
        first = next(iter(full_values.values()))
        segment = owner.segments[next(iter(full_values))]
        if not isinstance(first, Tensor) or tuple(first.shape) != segment.shape or (
                not first.dim() and key == "step"):
            part[key] = first.clone() if isinstance(first, Tensor) else first
            continue
        shard = np.zeros(handle.layout.shard_length, first._array.dtype)
        for name, value in full_values.items():
            own = handle.own_part(owner.segments[name])
            shard[own] = handle.part_of(owner.segments[name], value._array)
        if handle._use_orig_params:
            shard = shard[handle.own_part(segment)].copy()
        part[key] = wrap(shard.reshape(shape))
    return part


def rekey(state_dict: dict[str, Any], uses_names: bool, model: Module) -> dict[str, Any]:
    """Replace parameter numbers by names, or names by numbers, in a whole state."""
    names = [clean_tensor_name(name) for name, _ in model.named_parameters()]
    keys: dict[Any, Any] = dict(enumerate(names)) if uses_names \
        else {name: number for number, name in enumerate(names)}
    return {
        "state": {keys.get(key, key): value for key, value in state_dict["state"].items()},
        "param_groups": [
            {**group, "params": [keys.get(key, key) for key in group["params"]]}
            for group in state_dict["param_groups"]
        ],
    }
