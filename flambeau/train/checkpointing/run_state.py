"""The state of a run: what `Trainer.state_dict` saves, and how it is restored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...nn import Module
from ..training_step.validation import check_loaded

if TYPE_CHECKING:
    from ..trainer import Trainer


def collect_state(trainer: Trainer, position: dict[str, Any]) -> dict[str, Any]:
    """Return the states of all objects of a run. `position`: the epoch, the step, their metrics."""
    supervised = trainer.supervised
    state: dict[str, Any] = {
        "run": position,
        "optimizers": _collect_states(trainer.optimizers),
        "tracked": _collect_states(trainer.tracked),
        **_collect_states(_find_stateful_modules(trainer)),
    }
    if supervised.scaler is not None:
        state["scaler"] = supervised.scaler.state_dict()
    if supervised.kinds.records:
        state["kinds"] = supervised.kinds.state_dict()
    if supervised.look_kinds.records:
        state["look_kinds"] = supervised.look_kinds.state_dict()
    if supervised.pending:
        state["accumulated"] = _collect_accumulation(trainer)
    return state


def restore_objects(trainer: Trainer, saved: Mapping[str, Any]) -> None:
    """Restore modules, optimizers, tracked objects, the scaler and the kinds of batches.

    Raises KeyError if the run's optimizers or tracked objects differ from the state's.
    """
    for name, module in _find_stateful_modules(trainer).items():
        module.load_state_dict(saved[name])
    for group in ("optimizers", "tracked"):
        objects: Mapping[str, Any] = getattr(trainer, group)
        if set(objects) != set(saved[group]):
            raise KeyError(
                f"the state has {group} {sorted(saved[group])}, this run has {sorted(objects)}"
            )
        for name, state in saved[group].items():
            objects[name].load_state_dict(state)
    for name, optimizer in trainer.optimizers.items():
        check_loaded(optimizer, name)
    supervised = trainer.supervised
    if supervised.scaler is not None:
        supervised.scaler.load_state_dict(saved["scaler"])
    supervised.kinds.load_state_dict(saved.get("kinds", {}))
    supervised.look_kinds.load_state_dict(saved.get("look_kinds", {}))


def restore_accumulation(trainer: Trainer, saved: Mapping[str, Any]) -> None:
    """Restore the gradients of batches that await their update; clear all others."""
    accumulated = saved.get("accumulated", {"batches": 0, "gradients": {}})
    trainer.supervised.pending = accumulated["batches"]
    for module_name, module in _find_stateful_modules(trainer).items():
        gradients = accumulated["gradients"].get(module_name, {})
        for name, parameter in module.named_parameters():
            gradient = gradients.get(name)
            parameter.grad = None if gradient is None else gradient.clone()


def _collect_accumulation(trainer: Trainer) -> dict[str, Any]:
    """Return the gradients of the batches since the last update."""
    gradients = {
        module_name: {name: parameter.grad.clone() for name, parameter in module.named_parameters()
                      if parameter.grad is not None}
        for module_name, module in _find_stateful_modules(trainer).items()
    }
    return {"batches": trainer.supervised.pending, "gradients": gradients}


def _find_stateful_modules(trainer: Trainer) -> dict[str, Module]:
    """Return the net, and the loss if it has parameters or buffers."""
    modules = {} if trainer.net is None else {"net": trainer.net}
    if isinstance(trainer.loss, Module) and trainer.loss.state_dict():
        modules["loss"] = trainer.loss
    return modules


def _collect_states(objects: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.state_dict() for name, value in objects.items()}
