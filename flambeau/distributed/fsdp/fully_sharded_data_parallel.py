"""FullyShardedDataParallel: a module whose parameters are divided among the processes.

Zhao et al.: PyTorch FSDP, VLDB 2023 (https://arxiv.org/abs/2304.11277).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd.mode import no_grad
from ...native.foundation.user_frames import warn
from ...nn import ModuleDict, ModuleList
from ...nn.module import Module
from ...tensor import Tensor
from .api import (
    BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig,
    LocalOptimStateDictConfig, LocalStateDictConfig, MixedPrecision, OptimStateDictConfig,
    OptimStateKeyType, ShardedOptimStateDictConfig, ShardedStateDictConfig, ShardingStrategy,
    StateDictConfig, StateDictSettings, StateDictType,
)
from .flat_layout import FlatParameter
from .gradient_norm import clip_sharded_grad_norm
from .input_dtypes import cast_floats
from .module_setup import (
    choose_groups, collect_ignored_states, create_handle, initialize_parameters, sync_initial_state,
)
from .names import FSDP_PREFIX, WRAPPED
from .state_dict import register_state_dict_hooks
from .state_interface import StateInterface
from .unit import Schedule, Unit
from .wrap import apply_policy

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FlatParameter", "FullOptimStateDictConfig",
    "FullStateDictConfig", "FullyShardedDataParallel", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "OptimStateKeyType",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]

class FullyShardedDataParallel(StateInterface, Module):
    """Wrap a module and store a part of its parameters, gradients and optimizer state per process.

    The parameters that no submodule's wrapper owns form one flat parameter: a unit, gathered before
    its forward and backward and freed after them. `auto_wrap_policy` makes submodules units of
    their own. With `use_orig_params`, `parameters()` are the module's own, each reduced to this
    process's part; otherwise they are flat parameters. Create the optimizer after wrapping.
    Raises ValueError before torch.distributed.init_process_group, or for parameters of different
    dtypes in a unit.

    >>> from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> net = FSDP(nn.Linear(2, 1), sharding_strategy=ShardingStrategy.NO_SHARD)
    >>> list(net.state_dict())
    ['weight', 'bias']
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None, cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None, device_id: Any = None,
        sync_module_states: bool = False, forward_prefetch: bool = False,
        limit_all_gathers: bool = True, use_orig_params: bool = False, ignored_states: Any = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(module, (ModuleList, ModuleDict)):
            warn("FSDP will not all-gather parameters for containers that do "
                 f"not implement forward: {module}")
        _check_device(device_id)
        self.process_group, self._replicas, self.sharding_strategy = choose_groups(
            process_group, sharding_strategy, device_mesh
        )
        self._ignored_modules, self._ignored_ids = collect_ignored_states(
            module, ignored_modules, ignored_states
        )
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self.mixed_precision = mixed_precision or MixedPrecision()
        self.cpu_offload = cpu_offload or CPUOffload()
        self._use_orig_params, self._device_mesh = use_orig_params, device_mesh
        if auto_wrap_policy is not None:
            options = {
                "sharding_strategy": sharding_strategy, "cpu_offload": cpu_offload,
                "backward_prefetch": backward_prefetch, "mixed_precision": mixed_precision,
                "param_init_fn": param_init_fn, "sync_module_states": sync_module_states,
                "use_orig_params": use_orig_params, "device_mesh": device_mesh,
            }
            self._flambeau_wrap_submodules(module, auto_wrap_policy, process_group, options)
        initialize_parameters(self, module, param_init_fn)
        if sync_module_states:
            sync_initial_state(self, module)
        self._fsdp_wrapped_module = module
        self._handle = create_handle(self, module)
        self._flambeau_unit: Unit | None = None
        if self._handle is not None:
            reshards = self.sharding_strategy in (
                ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD
            )
            self._flambeau_unit = Unit(self._handle, reshards, backward_prefetch)
        self._buffer_dtypes: dict[tuple[int, str], Any] = {}
        FullyShardedDataParallel.set_state_dict_type(self, StateDictType.FULL_STATE_DICT)
        register_state_dict_hooks(self)

    def _flambeau_wrap_submodules(
        self, module: Module, policy: Any, process_group: Any, options: dict[str, Any]
    ) -> None:
        """Make units of the submodules that a policy selects."""
        if self._replicas is not None and options["device_mesh"] is None:
            process_group = self.process_group, self._replicas
        ignored = [p for p in module.parameters() if id(p) in self._ignored_ids]
        options = {**options, "process_group": process_group, "ignored_states": ignored}
        apply_policy(module, policy, self._ignored_modules, self._ignored_ids, options,
                     FullyShardedDataParallel)

    # ------------------------------------------------------------------------ access

    @property
    def module(self) -> Module:
        """The wrapped module."""
        inner = self._fsdp_wrapped_module
        return getattr(inner, "_checkpoint_wrapped_module", inner)

    @property
    def _has_params(self) -> bool:
        return self._handle is not None

    @property
    def _flat_param(self) -> FlatParameter | None:
        return None if self._handle is None else self._handle.flat_param

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == WRAPPED:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        module: Any = self._fsdp_wrapped_module
        return module[key]

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return the sharded modules below and including a module; or the outermost ones."""
        if not root_only:
            return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if isinstance(module, FullyShardedDataParallel):
            return [module]
        return [m for child in module.children()
                for m in FullyShardedDataParallel.fsdp_modules(child, True)]

    def check_is_root(self) -> bool:
        """Return whether no other sharded module contains this one. Known after a forward."""
        self._flambeau_find_root()
        return bool(self._is_root)

    def apply(self, fn: Callable[[Module], None]) -> FullyShardedDataParallel:
        """Apply `fn` to all submodules while their own parameters are whole."""
        with FullyShardedDataParallel.summon_full_params(self):
            return super().apply(fn)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Like Module's. Names have no wrapper's prefix if the parameters are the module's own."""
        cleans = self._use_orig_params or self._flambeau_is_summoned
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield (name.replace(FSDP_PREFIX, "") if cleans else name), parameter

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Like Module's; names have no wrapper's prefix inside `summon_full_params`."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield (name.replace(FSDP_PREFIX, "") if self._flambeau_is_summoned else name), buffer

    _flambeau_is_summoned = False
    _is_root: bool | None = None

    # ------------------------------------------------------------------------ training

    def _flambeau_find_root(self) -> None:
        """At the first forward: become the root of all sharded modules below."""
        if self._is_root is not None:
            return
        schedule = Schedule()
        for module in FullyShardedDataParallel.fsdp_modules(self):
            module._is_root = module is self
            unit = module._flambeau_unit
            if unit is not None:
                unit.schedule = schedule
                schedule.units.append(unit)
                if module is self:
                    unit.reshards_after_forward = False  # backward begins with it
            module._flambeau_cast_buffers()
        self._flambeau_schedule = schedule

    def _flambeau_cast_buffers(self) -> None:
        """Cast the buffers of this unit to `buffer_dtype`; remember theirs for checkpoints."""
        dtype = self.mixed_precision.buffer_dtype
        for module in self._flambeau_own_modules() if dtype is not None else ():
            for name, buffer in module._buffers.items():
                if buffer is not None and buffer.is_floating_point():
                    self._buffer_dtypes[id(module), name] = buffer.dtype
                    module._buffers[name] = buffer.to(dtype)

    def _flambeau_own_modules(self) -> Iterator[Module]:
        """The modules of this unit: those below that no other wrapper or ignored module owns."""
        waiting = [self._fsdp_wrapped_module]
        while waiting:
            module = waiting.pop()
            if isinstance(module, FullyShardedDataParallel) or module in self._ignored_modules:
                continue
            yield module
            waiting.extend(module.children())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module with whole parameters."""
        self._flambeau_find_root()
        precision, unit = self.mixed_precision, self._flambeau_unit
        casts = (precision.cast_root_forward_inputs if self._is_root
                 else precision.cast_forward_inputs)
        if casts and precision.param_dtype is not None:
            args, kwargs = cast_floats((args, kwargs), precision.param_dtype)
        if self._is_root:
            self._flambeau_schedule.begin_forward()
        if unit is None:
            return self._fsdp_wrapped_module(*args, **kwargs)
        unit.before_forward((args, kwargs))
        outputs = self._fsdp_wrapped_module(*args, **kwargs)
        unit.after_forward(outputs)
        return outputs

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Sum gradients locally inside; the next backward outside averages the sums."""
        self._flambeau_find_root()
        if not self._is_root:
            raise RuntimeError("`no_sync()` on inner FSDP instances is not supported. Please call "
                               "`no_sync()` on root FSDP module.")
        units = self._flambeau_schedule.units
        before = [unit.syncs for unit in units]
        for unit in units:
            unit.syncs = False
        try:
            yield
        finally:
            for unit, syncs in zip(units, before, strict=True):
                unit.syncs = syncs

    @no_grad()
    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients down to a total norm of `max_norm`; return their norm. All processes
        must call it, on the root."""
        self._flambeau_find_root()
        if not self._is_root:
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP "
                               "instance")
        sharded = [m._handle for m in FullyShardedDataParallel.fsdp_modules(self)
                   if m._handle is not None and m._handle.uses_sharded_strategy]
        return clip_sharded_grad_norm(
            list(self.parameters()), sharded, self.process_group, float(max_norm), float(norm_type)
        )

    def register_comm_hook(self, state: Any, hook: Callable) -> None:
        """Raise NotImplementedError: flambeau reduces gradients itself."""
        raise NotImplementedError("FullyShardedDataParallel.register_comm_hook is not implemented "
                                  "in flambeau")


def _check_device(device_id: Any) -> None:
    """Raise ValueError for a device other than the CPU."""
    if device_id is not None and "cpu" not in str(device_id):
        raise ValueError(f"FullyShardedDataParallel: device_id={device_id!r} names a GPU, and "
                         "flambeau has none. Leave device_id out.")
