"""StateInterface: the static methods of FullyShardedDataParallel for state and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ...nn.module import Module
from .api import (
    FullOptimStateDictConfig, FullStateDictConfig, LocalOptimStateDictConfig, LocalStateDictConfig,
    OptimStateDictConfig, OptimStateKeyType, ShardedOptimStateDictConfig, ShardedStateDictConfig,
    StateDictConfig, StateDictSettings, StateDictType,
)
from .optimizer_state import gather_optimizer_state, rekey, shard_optimizer_state
from .whole_parameters import whole_parameters

_CONFIGS: dict[StateDictType, tuple[type[StateDictConfig], type[OptimStateDictConfig]]] = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


def list_sharded_modules(module: Module) -> list[Any]:
    """Return the FullyShardedDataParallel modules below and including a module."""
    return [module for module in module.modules() if isinstance(module, StateInterface)]


class StateInterface:
    """Make parameters whole; choose the kind of state dict; gather the state of optimizers."""

    _flambeau_settings: StateDictSettings

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Iterator[None]:
        """Make the module's own parameters whole inside; keep what is written to them.

        `with_grads`, for `use_orig_params` only, makes their gradients whole too. All processes
        must enter it; with `rank0_only`, only rank 0 may use the values.
        """
        if writeback and rank0_only:
            raise NotImplementedError("is not supported: writeback=True and rank0_only=True")
        modules = list_sharded_modules(module)
        if not recurse:
            modules = [m for m in modules if m is module]
        with ExitStack() as stack:
            for sharded in modules:
                handle = sharded._handle
                if handle is not None:
                    if with_grads and not sharded._use_orig_params:
                        raise NotImplementedError(
                            "with_grads=True is not supported with use_orig_params=False"
                        )
                    stack.enter_context(whole_parameters(handle, writeback, with_grads))
                sharded._flambeau_is_summoned = True
            try:
                yield
            finally:
                for sharded in modules:
                    sharded._flambeau_is_summoned = False

    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Choose what `state_dict()` returns and takes; return the previous choice."""
        kind, optim_kind = _CONFIGS[state_dict_type]
        config = kind() if state_dict_config is None else state_dict_config
        optim = optim_kind() if optim_state_dict_config is None else optim_state_dict_config
        if type(config) is not kind or type(optim) is not optim_kind:
            raise RuntimeError(
                f"Expected state_dict_config of type {kind} and optim_state_dict_config of type "
                f"{optim_kind} but got {type(config)} and {type(optim)}"
            )
        before: StateDictSettings | None = None
        for sharded in list_sharded_modules(module):
            before = before or sharded.__dict__.get("_flambeau_settings")
            sharded._flambeau_settings = StateDictSettings(state_dict_type, config, optim)
        return before or StateDictSettings(state_dict_type, config, optim)

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """Return the choice of `set_state_dict_type`."""
        return next(m._flambeau_settings for m in list_sharded_modules(module))

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """Choose what `state_dict()` returns and takes, inside the context."""
        modules = list_sharded_modules(module)
        before = [module._flambeau_settings for module in modules]
        StateInterface.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for sharded, settings in zip(modules, before, strict=True):
                sharded._flambeau_settings = settings

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: dict[str, Any] | None = None, group: Any = None
    ) -> dict[str, Any]:
        """Return an optimizer's state by parameter names, whole or as DTensors, as chosen by
        `set_state_dict_type`. All processes must call it."""
        settings = StateInterface.get_state_dict_type(model)
        return gather_optimizer_state(model, optim, optim_state_dict, settings)

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False, load_directly: bool = False, group: Any = None,
    ) -> dict[str, Any]:
        """Return this process's part of a state of `optim_state_dict`, for the optimizer's
        `load_state_dict`; with `load_directly`, load it too."""
        settings = StateInterface.get_state_dict_type(model)
        state = shard_optimizer_state(model, optim, optim_state_dict, settings)
        if load_directly:
            optim.load_state_dict(state)
        return state

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True,
        group: Any = None,
    ) -> dict[str, Any]:
        """Return an optimizer's whole state; with `rank0_only` an empty one on other processes."""
        settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(),
            FullOptimStateDictConfig(rank0_only=rank0_only),
        )
        return gather_optimizer_state(model, optim, None, settings)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:
        """Return this process's part of a whole state."""
        settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(),
                                     FullOptimStateDictConfig())
        return shard_optimizer_state(model, optim, full_optim_state_dict, settings)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None, model: Module, optim_input: Any = None,
        optim: Any = None, group: Any = None,
    ) -> dict[str, Any]:
        """Return this process's part of the whole state of rank 0."""
        settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(),
                                     FullOptimStateDictConfig(rank0_only=True))
        return shard_optimizer_state(model, optim, full_optim_state_dict or {}, settings)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Module,
        optim_input: Any = None, optim: Any = None,
    ) -> dict[str, Any]:
        """Return an unsharded state that is keyed by the parameters' names, or by their numbers.

        The model is not sharded; it gives names and their order.
        """
        return rekey(optim_state_dict, optim_state_key_type is OptimStateKeyType.PARAM_NAME, model)
