"""State dicts for checkpoints: parameter names without wrapper prefixes, as on one process.

Parameters of FullyShardedDataParallel and their optimizer state are whole in them, DTensors stay
DTensors unless `full_state_dict` asks for whole tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ...tensor import Tensor, tree
from ..fsdp._fully_shard import FSDPModule
from ..fsdp.api import FullOptimStateDictConfig, FullStateDictConfig, StateDictType
from ..fsdp.names import clean_tensor_name
from ..fsdp.state_dict import own_names
from ..fsdp.state_interface import StateInterface, list_sharded_modules
from ..group import get_rank
from ..objects import broadcast_object_list
from ..tensor import DTensor, distribute_tensor

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]


@dataclass
class StateDictOptions:
    """Options. `strict`: names must match when a model's state is set. `ignore_frozen_params`: omit
    parameters that do not require grad. For sharded models, `full_state_dict` with `cpu_offload`
    returns the state on rank 0 only, and `broadcast_from_rank0` sets the state that rank 0 passes.
    The others have no effect.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def _unwrap_model(model: Any) -> Any:
    """Return the module inside its wrappers."""
    while type(model).__name__ in ("DistributedDataParallel", "DataParallel", "OptimizedModule"):
        model = model.module if hasattr(model, "module") else model._orig_mod
    return model


def _gather_whole(model: Any, rank0_only: bool) -> AbstractContextManager[None]:
    """A context in which state dicts of sharded modules have whole parameters."""
    return StateInterface.state_dict_type(
        model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=rank0_only),
        FullOptimStateDictConfig(rank0_only=rank0_only),
    )


def _is_for_rank_0(options: Any) -> bool:
    return options is not None and options.full_state_dict and options.cpu_offload


def _should_broadcast(options: Any) -> bool:
    return options is not None and options.broadcast_from_rank0


def _list_frozen_names(module: Any) -> list[str]:
    names = [name for name, p in module.named_parameters() if not p.requires_grad]
    for path, each in module.named_modules():
        handle = each.__dict__.get("_handle") if isinstance(each, StateInterface) else None
        if handle is not None:
            prefix = clean_tensor_name(f"{path}." if path else "")
            names += [name for name, segment in own_names(handle, prefix)
                      if not segment.requires_grad]
    return names


def get_model_state_dict(model: Any, *, submodules: Any = None, options: Any = None
                         ) -> dict[str, Any]:
    """Return the model's state without wrapper prefixes."""
    module = _unwrap_model(model)
    with _gather_whole(module, _is_for_rank_0(options)):
        state = dict(module.state_dict())
    if options is not None and options.ignore_frozen_params:
        for name in _list_frozen_names(module):
            state.pop(name, None)
    return _make_whole(state, options)


def _make_whole(state: Any, options: Any) -> Any:
    """Return the state with whole tensors if `full_state_dict`, on rank 0 with `cpu_offload`."""
    if options is None or not options.full_state_dict:
        return state
    had_parts = any(isinstance(value, DTensor) for value in tree.collect_leaves(Tensor, (state,)))
    gathered = tree.map_leaves(
        lambda value: value.full_tensor() if isinstance(value, DTensor) else value, state)
    return {} if had_parts and options.cpu_offload and get_rank() else gathered


def _cut_like(value: Any, template: Any) -> Any:
    """Return a whole tensor as a DTensor distributed as a parameter is; other values as they are.
    """
    if isinstance(value, Tensor) and isinstance(template, DTensor) and not isinstance(value,
                                                                                      DTensor) \
            and value.shape == template.shape:
        return distribute_tensor(value.detach(), template.device_mesh, template.placements,
                                 src_data_rank=None)
    return value


def _list_names(model: Any) -> list[str]:
    return [name for name, _ in _unwrap_model(model).named_parameters()]


def _list_optimizers(optimizers: Any) -> Sequence[Any]:
    return optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]


def get_optimizer_state_dict(model: Any, optimizers: Any, *, submodules: Any = None,
                             options: Any = None) -> dict[str, Any]:
    """Return the optimizers' states keyed by parameter name instead of number."""
    if list_sharded_modules(_unwrap_model(model)):
        return _gather_optimizer_state(_unwrap_model(model), optimizers, options)
    names = {id(p): name for name, p in _unwrap_model(model).named_parameters()}
    whole: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _list_optimizers(optimizers):
        state = optimizer.state_dict()
        numbers = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        whole["state"].update({numbers[number]: value for number, value in state["state"].items()})
        for group in state["param_groups"]:
            whole["param_groups"].append({**group, "params": [numbers[i] for i in group["params"]]})
    return _make_whole(whole, options)


def _gather_optimizer_state(module: Any, optimizers: Any, options: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"state": {}, "param_groups": []}
    with _gather_whole(module, _is_for_rank_0(options)):
        for optimizer in _list_optimizers(optimizers):
            state = StateInterface.optim_state_dict(module, optimizer)
            if state:  # on the other ranks nothing, if it is for rank 0
                whole["state"].update(state["state"])
                whole["param_groups"] += state["param_groups"]
    return whole if whole["param_groups"] else {}


def get_state_dict(model: Any, optimizers: Any, *, submodules: Any = None, options: Any = None
                   ) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the model's state, the optimizers' state)."""
    return (get_model_state_dict(model, options=options),
            get_optimizer_state_dict(model, optimizers, options=options))


def set_model_state_dict(model: Any, model_state_dict: dict[str, Any], *, options: Any = None
                         ) -> Any:
    """Load a state from `get_model_state_dict`."""
    strict, module = options is None or options.strict, _unwrap_model(model)
    if _should_broadcast(options):
        model_state_dict = _receive_from_rank_0(model_state_dict)
    for each in module.modules():
        if isinstance(each, FSDPModule):
            each.reshard()
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    model_state_dict = {name: _cut_like(value, own.get(name))
                        for name, value in model_state_dict.items()}
    with _gather_whole(module, rank0_only=False):
        return module.load_state_dict(model_state_dict, strict=strict)


def _receive_from_rank_0(state: dict[str, Any]) -> dict[str, Any]:
    box: list[Any] = [state]
    broadcast_object_list(box, 0)
    return box[0]


def set_optimizer_state_dict(model: Any, optimizers: Any, optim_state_dict: dict[str, Any], *,
                             options: Any = None) -> None:
    """Load a state from `get_optimizer_state_dict`."""
    if _should_broadcast(options):
        optim_state_dict = _receive_from_rank_0(optim_state_dict)
    module, groups = _unwrap_model(model), list(optim_state_dict["param_groups"])
    if list_sharded_modules(module):
        with _gather_whole(module, rank0_only=False):
            for optimizer in _list_optimizers(optimizers):
                count = len(optimizer.param_groups)
                part = {"state": optim_state_dict["state"], "param_groups": groups[:count]}
                groups = groups[count:]
                StateInterface.optim_state_dict_to_load(module, optimizer, part, load_directly=True)
        return
    names = {id(p): name for name, p in module.named_parameters()}
    for optimizer in _list_optimizers(optimizers):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        numbers = [names[id(p)] for p in parameters]
        state = {
            number: {key: _cut_like(value, parameters[number])
                     for key, value in optim_state_dict["state"][name].items()}
            for number, name in enumerate(numbers) if name in optim_state_dict["state"]
        }
        count = len(optimizer.param_groups)
        selected, groups = groups[:count], groups[count:]
        number = {name: number for number, name in enumerate(numbers)}
        selected = [{**group, "params": [number[name] for name in group["params"]]}
                    for group in selected]
        optimizer.load_state_dict({"state": state, "param_groups": selected})


def set_state_dict(model: Any, optimizers: Any, *, model_state_dict: dict[str, Any],
                   optim_state_dict: dict[str, Any], options: Any = None) -> Any:
    """Load the states from `get_state_dict`."""
    if optim_state_dict or _should_broadcast(options):
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
