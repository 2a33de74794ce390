"""fully_shard and FSDPModule: the modules' side of sharded parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from ....nn import ModuleDict, ModuleList
from ....nn.module import Module
from ....nn.parameter import Parameter
from ...device_mesh import DeviceMesh, init_device_mesh
from ...group import get_world_size, init_process_group, is_initialized
from ...tensor.placement_types import Shard
from .group import ParameterGroup
from .parameter import MeshInfo, ShardedParameter
from .policies import MixedPrecisionPolicy, OffloadPolicy
from .state import ModuleState, find_state

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]


def fully_shard(
    module: Any, *, mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None, offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Parameter] | None = None,
) -> Any:
    """Turn a module's parameters into DTensors that are cut over the processes, and return it.

    They are gathered together before forward and backward, and released after them. Call it on
    submodules first: each call takes the parameters that belong to no other call. A mesh of two
    axes replicates over the first and shards over the second. `reshard_after_forward=False` keeps
    parameters whole from forward to backward, as None does for the root. `shard_placement_fn`
    returns the axis to cut as a Shard, or None for the first.
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for each in modules:
        _check_module(each)
    if mesh is None:
        if not is_initialized():
            init_process_group()
        mesh = init_device_mesh("cpu", (get_world_size(),))
    info, policy = MeshInfo(mesh), mp_policy or MixedPrecisionPolicy()
    ignored = {id(parameter) for parameter in ignored_params or ()}
    parameters = [
        ShardedParameter(owners, info, _choose_placement(owners, shard_placement_fn),
                         policy.param_dtype)
        for owners in _find_places(modules, ignored)
    ]
    group = ParameterGroup(parameters, info, policy.reduce_dtype) if parameters else None
    state = ModuleState(modules, group, policy, reshard_after_forward)
    for each in modules:
        _convert(each, state)
    return module


def _check_module(module: Module) -> None:
    if isinstance(module, (ModuleList, ModuleDict)) and \
            type(module).forward is Module.forward:
        raise ValueError("fully_shard does not support containers that do not implement forward: "
                         f"{module}")
    if find_state(module) is not None:
        raise AssertionError(
            f"Each distinct composable distributed API can only be applied to a module once. The "
            f"following API has already been applied: fully_shard to {type(module).__name__}")


def _choose_placement(
    owners: list[tuple[Module, str]], choose: Callable[[Parameter], Shard | None] | None
) -> Shard | None:
    module, name = owners[0]
    parameter = module._parameters[name]
    return None if choose is None or parameter is None else choose(parameter)


def _find_places(modules: list[Module], ignored: set[int]) -> list[list[tuple[Module, str]]]:
    """Return, for each parameter that no other call has, the modules and names it is at."""
    owners: dict[int, list[tuple[Module, str]]] = {}
    visited: set[int] = set()

    def visit(module: Module) -> None:
        if id(module) in visited or find_state(module) is not None:
            return
        visited.add(id(module))
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in ignored:
                owners.setdefault(id(parameter), []).append((module, name))
        for child in module.children():
            visit(child)

    for module in modules:
        visit(module)
    return list(owners.values())


def _convert(module: Module, state: ModuleState) -> None:
    """Give a module the class and the hooks of a sharded one."""
    cls = type(module)
    module.__class__ = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})
    module.register_forward_pre_hook(
        lambda owner, args, kwargs: state.before_forward(args, kwargs), prepend=True,
        with_kwargs=True)
    module.register_forward_hook(lambda owner, args, outputs: state.after_forward(outputs))
    module.register_state_dict_pre_hook(lambda owner, prefix, keep_vars: owner.reshard())
    module.register_load_state_dict_pre_hook(lambda owner, *_: owner.reshard())


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Gather a sharded module's parameters around another method, as around forward."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)
    state = module._get_fsdp_state()

    @wraps(method)
    def gathered(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = state.before_forward(args, kwargs)
        return state.after_forward(method(*args, **kwargs))

    module.__dict__[method_name] = gathered


class UnshardHandle:
    """`wait()` ends an `unshard(async_op=True)`."""

    def __init__(self, group: ParameterGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Wait until the parameters are whole."""
        if self._group is not None:
            self._group.unshard()
            self._group = None


class FSDPModule:
    """What `fully_shard` adds to a module's class."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Construct the original class: parts of a Sequential, for instance, are not sharded."""
        original = cls.__mro__[2]
        create: Any = original.__new__
        self = create(original) if create is object.__new__ else create(
            original, *args, **kwargs)
        self.__init__(*args, **kwargs)
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError("FSDP does not support deepcopy. Please use state dict for "
                             "serialization.")

    def _get_fsdp_state(self) -> ModuleState:
        state = find_state(self)  # type: ignore[arg-type]
        if state is None:
            raise AssertionError(f"No FSDP state found on {self}")
        return state

    def _states_below(self, recurse: bool) -> Iterable[ModuleState]:
        """Return the states of this module and, if `recurse`, of those below."""
        modules: Any = self.modules() if recurse else (self,)  # type: ignore[attr-defined]
        states: dict[int, ModuleState] = {}
        for module in modules:
            if (state := find_state(module)) is not None:
                states.setdefault(id(state), state)
        return states.values()

    def _groups_below(self, recurse: bool) -> list[ParameterGroup]:
        return [s.group for s in self._states_below(recurse) if s.group is not None]

    def reshard(self) -> None:
        """Release the module's whole parameters; those of submodules are left alone."""
        for group in self._groups_below(False):
            group.reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the module's parameters, not those of submodules' calls of fully_shard.

        With `async_op` return a handle to wait for.
        """
        state = self._get_fsdp_state()
        if state.group is None:
            return UnshardHandle(None) if async_op else None
        state.group.start_unshard()
        handle = UnshardHandle(state.group)
        if async_op:
            return handle
        handle.wait()
        return None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Say whether the next backward is the last one; gradients are complete after each."""
        for state in self._states_below(True):
            state.is_last_backward = is_last_backward

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Set whether backward reduces gradients, or sums them up in each process."""
        for group in self._groups_below(recurse):
            group.reduces_gradients = group.reduces_over_replicas = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether backward also reduces over the replicas of a mesh of two axes."""
        for group in self._groups_below(recurse):
            group.reduces_over_replicas = requires_all_reduce

    def set_reshard_after_forward(
        self, reshard_after_forward: bool, recurse: bool = True
    ) -> None:
        """Set whether forward releases the parameters that it gathered."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError("reshard_after_forward should be a bool, got "
                             f"{type(reshard_after_forward)}")
        for state in self._states_below(recurse):
            state.reshards_after_forward = state._requested = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Set whether backward releases the parameters."""
        for state in self._states_below(recurse):
            state.reshards_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Gather the parameters of these modules while this one runs forward."""
        self._get_fsdp_state().forward_prefetch = [m._get_fsdp_state() for m in modules]

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Gather the parameters of these modules while this one runs backward."""
        self._get_fsdp_state().backward_prefetch = [m._get_fsdp_state() for m in modules]

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Set what gradients' sums are divided by, instead of the number of processes."""
        for group in self._groups_below(False):
            group.divide_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Accepted without effect: backward gathers the parameters that it needs."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Accepted without effect: gradients are summed, then divided."""

    def set_post_optim_event(self, event: Any) -> None:
        """Accepted without effect: there are no streams."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accepted without effect: groups have no memory of their own."""

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """Apply a conversion to the parts, and gather them again afterwards."""
        self.reshard()
        above: Any = super()
        result = above._apply(fn, recurse)
        for group in self._groups_below(False):
            for parameter in group.parameters:
                parameter.adopt_replacement()
        return result
