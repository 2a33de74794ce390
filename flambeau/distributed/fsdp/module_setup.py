"""Set up a sharded module: groups, ignored states, initial values, and the flat parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...native.foundation.user_frames import warn
from ...nn.module import Module
from ...nn.parameter import Parameter
from ..data_parallel.state_sync import broadcast_tensors
from ..group import get_world_size
from ..process_group import ProcessGroup, require_member
from .api import ShardingStrategy
from .flat_handle import FlatParamHandle
from .flat_layout import check_uniform, iterate_owned_parameters, lay_out

_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


def choose_groups(
    process_group: Any, strategy: ShardingStrategy | None, device_mesh: Any
) -> tuple[ProcessGroup, ProcessGroup | None, ShardingStrategy]:
    """Return the group that shards, the group of replicas, and the strategy.

    With one process there is nothing to shard, and the strategy becomes NO_SHARD.
    """
    strategy = strategy or ShardingStrategy.FULL_SHARD
    if process_group is not None and device_mesh is not None:
        raise ValueError("Cannot pass both process_group and device_mesh at the same time. Please "
                         "just pass only one of them.")
    replicas: ProcessGroup | None = None
    if strategy in _HYBRID:
        group, replicas = _create_hybrid_groups(process_group, device_mesh)
    elif device_mesh is not None:
        group = device_mesh.get_group(0)
    else:
        group = require_member(process_group)
    if group.size() == 1 and replicas is None and strategy is not ShardingStrategy.NO_SHARD:
        warn("FSDP is switching to use `NO_SHARD` instead of "
             f"{strategy} since the world size is 1.")
        strategy = ShardingStrategy.NO_SHARD
    return group, replicas, strategy


def _create_hybrid_groups(
    process_group: Any, device_mesh: Any
) -> tuple[ProcessGroup, ProcessGroup]:
    if device_mesh is not None:
        if device_mesh.ndim != 2:
            raise ValueError("Expected device_mesh to have ndim=2 for HYBRID_SHARD but got "
                             f"{device_mesh.ndim}")
        return device_mesh.get_group(1), device_mesh.get_group(0)
    if isinstance(process_group, tuple) and len(process_group) == 2:
        return process_group
    error = ValueError(
        "Expected process_group to be passed in as a tuple of two groups, or device_mesh with two "
        f"dimensions, for HYBRID_SHARD, but got {process_group}"
    )
    error.add_note("init_device_mesh('cpu', (replicas, shards)) describes "
                   f"{get_world_size()} processes as such a grid.")
    raise error


def collect_ignored_states(
    module: Module, ignored_modules: Iterable[Module] | None, ignored_states: Any
) -> tuple[set[Module], set[int]]:
    """Return the modules and the ids of parameters that are left alone."""
    if ignored_modules is not None and ignored_states is not None:
        raise ValueError("Cannot pass both ignored_modules and ignored_states at the same time. "
                         "Please just pass ignored_states.")
    states = list(ignored_states or ())
    modules = list(ignored_modules or ())
    parameters = {id(state) for state in states if isinstance(state, Parameter)}
    modules += [state for state in states if isinstance(state, Module)]
    below = {inner for module in modules for inner in module.modules()}
    parameters |= {id(p) for module in below for p in module._parameters.values() if p is not None}
    return below, parameters


def initialize_parameters(
    owner: Any, module: Module, param_init_fn: Callable[[Module], None] | None
) -> None:
    """Give values to parameters on the meta device: `param_init_fn(submodule)` does, or the
    submodule's `reset_parameters()`."""
    for submodule in _list_own_modules(owner, module):
        state = [*submodule._parameters.values(), *submodule._buffers.values()]
        if not any(tensor is not None and tensor.is_meta for tensor in state):
            continue
        if param_init_fn is not None:
            param_init_fn(submodule)
            continue
        submodule.to_empty(device="cpu", recurse=False)
        reset = getattr(submodule, "reset_parameters", None)
        if reset is None:
            raise ValueError(
                f"Unable to call reset_parameters() for module on meta device with error no "
                f"reset_parameters. Please ensure that your module of type {type(submodule)} "
                "implements a reset_parameters() method."
            )
        reset()


def _list_own_modules(owner: Any, module: Module) -> list[Module]:
    """Return the modules below that neither another wrapper owns nor the user excluded."""
    modules: list[Module] = []
    waiting = [module]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, type(owner)) and each not in owner._ignored_modules:
            modules.append(each)
            waiting.extend(each.children())
    return modules


def sync_initial_state(owner: Any, module: Module) -> None:
    """Copy the parameters and buffers of rank 0 to the other processes."""
    state = [
        tensor for module in _list_own_modules(owner, module)
        for tensor in (*module._parameters.values(), *module._buffers.values())
        if tensor is not None and id(tensor) not in owner._ignored_ids
    ]
    for group in (owner.process_group, owner._replicas):
        if group is not None:
            broadcast_tensors(state, group)


def create_handle(owner: Any, module: Module) -> FlatParamHandle | None:
    """Flatten and shard the parameters that belong to no other unit; None if there are none."""
    ignored_modules = owner._ignored_modules
    owned = list(iterate_owned_parameters(
        module, lambda m: isinstance(m, type(owner)) or m in ignored_modules, owner._ignored_ids
    ))
    if not owned or module in ignored_modules:
        return None
    is_sharded = owner.sharding_strategy is not ShardingStrategy.NO_SHARD
    precision = owner.mixed_precision
    parameter = owned[0][3]
    computing = parameter if precision.param_dtype is None else parameter.detach()[:0].to(
        precision.param_dtype)
    layout = lay_out(
        owned, owner.process_group.size() if is_sharded else 1, owner._use_orig_params,
        computing.element_size(),
    )
    check_uniform(layout.segments, not owner._use_orig_params)
    reduce_dtype = precision.reduce_dtype or precision.param_dtype
    handle = FlatParamHandle(
        module, layout, owner.process_group, is_sharded, owner._use_orig_params,
        precision.param_dtype, reduce_dtype, owner._replicas,
    )
    handle.keeps_low_precision = precision.keep_low_precision_grads
    return handle
