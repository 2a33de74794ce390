"""The user's hooks: Python called in the middle of a step, which a compiled step cannot do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ...nn import Module

_OF_MODULES = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
)
_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OF_OPTIMIZERS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
DOCTOR = "the doctor"  # requests eager steps itself, so no warning is needed
_PACKAGE = __name__.partition(".")[0] + "."


def find_observer(parts: Iterable[Any], optimizers: Iterable[Any] = ()) -> str | None:
    """Return what must observe the step's parts: the doctor, or a module, parameter or optimizer
    with a hook; else None. flambeau's own hooks (such as weight norm) do not count."""
    doctor = sys.modules.get("flambeau.doctor")
    if doctor is not None and doctor.is_watching():
        return DOCTOR
    for part in parts:
        if not isinstance(part, Module):
            continue
        for name, module in part.named_modules():
            if _has_hooks(module, _OF_MODULES):
                return f"module '{name}'" if name else type(part).__name__
        for name, parameter in part.named_parameters():
            if _has_hooks(parameter, _OF_TENSORS):
                return f"parameter '{name}'"
    for optimizer in optimizers:
        if _has_hooks(optimizer, _OF_OPTIMIZERS):
            return type(optimizer).__name__
    return None


def _has_hooks(target: Any, names: tuple[str, ...]) -> bool:
    attributes = vars(target)
    return any(
        not (getattr(hook, "__module__", None) or "").startswith(_PACKAGE)
        for name in names
        for hook in (attributes.get(name) or {}).values()
    )
