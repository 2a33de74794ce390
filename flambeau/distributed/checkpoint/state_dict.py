"""State dicts for checkpoints: parameter names without wrapper prefixes, as on one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]

_WRAPPER = "module."  # the prefix that DistributedDataParallel adds
_COMPILED = "_orig_mod."


@dataclass
class StateDictOptions:
    """Options. `strict`: names must match when a model's state is set. `ignore_frozen_params`: omit
    parameters that do not require grad. The others have no effect.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def _inner(model: Any) -> Any:
    """Return the module inside its wrappers."""
    while type(model).__name__ in ("DistributedDataParallel", "DataParallel", "OptimizedModule"):
        model = model.module if hasattr(model, "module") else model._orig_mod
    return model


def get_model_state_dict(model: Any, *, submodules: Any = None, options: Any = None
                         ) -> dict[str, Any]:
    """Return the model's state without wrapper prefixes."""
    module = _inner(model)
    state = dict(module.state_dict())
    if options is not None and options.ignore_frozen_params:
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                state.pop(name, None)
    return state


def _names(model: Any) -> list[str]:
    return [name for name, _ in _inner(model).named_parameters()]


def _optimizers(optimizers: Any) -> Sequence[Any]:
    return optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]


def get_optimizer_state_dict(model: Any, optimizers: Any, *, submodules: Any = None,
                             options: Any = None) -> dict[str, Any]:
    """Return the optimizers' states keyed by parameter name instead of number."""
    names = {id(p): name for name, p in _inner(model).named_parameters()}
    whole: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _optimizers(optimizers):
        state = optimizer.state_dict()
        numbers = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        whole["state"].update({numbers[at]: value for at, value in state["state"].items()})
        for group in state["param_groups"]:
            whole["param_groups"].append({**group, "params": [numbers[i] for i in group["params"]]})
    return whole


def get_state_dict(model: Any, optimizers: Any, *, submodules: Any = None, options: Any = None
                   ) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the model's state, the optimizers' state)."""
    return (get_model_state_dict(model, options=options),
            get_optimizer_state_dict(model, optimizers, options=options))


def set_model_state_dict(model: Any, model_state_dict: dict[str, Any], *, options: Any = None
                         ) -> Any:
    """Load a state from `get_model_state_dict`."""
    strict = options is None or options.strict
    return _inner(model).load_state_dict(model_state_dict, strict=strict)


def set_optimizer_state_dict(model: Any, optimizers: Any, optim_state_dict: dict[str, Any], *,
                             options: Any = None) -> None:
    """Load a state from `get_optimizer_state_dict`."""
    names = {id(p): name for name, p in _inner(model).named_parameters()}
    groups = list(optim_state_dict["param_groups"])
    for optimizer in _optimizers(optimizers):
        numbers = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        state = {at: optim_state_dict["state"][name] for at, name in enumerate(numbers)
                 if name in optim_state_dict["state"]}
        count = len(optimizer.param_groups)
        selected, groups = groups[:count], groups[count:]
        number = {name: at for at, name in enumerate(numbers)}
        selected = [{**group, "params": [number[name] for name in group["params"]]}
                    for group in selected]
        optimizer.load_state_dict({"state": state, "param_groups": selected})


def set_state_dict(model: Any, optimizers: Any, *, model_state_dict: dict[str, Any],
                   optim_state_dict: dict[str, Any], options: Any = None) -> Any:
    """Load the states from `get_state_dict`."""
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
