"""Hooks common to all modules, and the flag that makes `Module.__call__` look for hooks.

Process-wide state, for debugging and profiling.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..autograd.handle import RemovableHandle

__all__ = [
    "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]

buffer_registration: dict[int, Callable] = OrderedDict()
module_registration: dict[int, Callable] = OrderedDict()
parameter_registration: dict[int, Callable] = OrderedDict()

backward_pre: dict[int, Callable] = OrderedDict()
backward: dict[int, Callable] = OrderedDict()
forward_pre: dict[int, Callable] = OrderedDict()
forward: dict[int, Callable] = OrderedDict()
forward_always_called: dict[int, bool] = OrderedDict()
forward_with_kwargs: dict[int, bool] = OrderedDict()

# Keys are PyTorch's names in torch.nn.modules.module.
HOOKS: dict[str, dict] = {
    "_global_backward_pre_hooks": backward_pre,
    "_global_backward_hooks": backward,
    "_global_forward_pre_hooks": forward_pre,
    "_global_forward_hooks": forward,
    "_global_forward_hooks_always_called": forward_always_called,
    "_global_forward_hooks_with_kwargs": forward_with_kwargs,
    "_global_buffer_registration_hooks": buffer_registration,
    "_global_module_registration_hooks": module_registration,
    "_global_parameter_registration_hooks": parameter_registration,
}

_lock = threading.Lock()


class Flag:
    """`_flambeau_is_hooked` of the class applies to every module; an instance sets its own."""

    _flambeau_is_hooked = False


class State:
    """Whether the global backward hooks are full hooks; None until the first is registered."""

    full_backward: bool | None = None


class _GlobalHandle(RemovableHandle):
    """Removes a global hook, and clears the flag with the last one."""

    def remove(self) -> None:
        super().remove()
        with _lock:
            _set_flag()


def _set_flag() -> None:
    Flag._flambeau_is_hooked = bool(backward_pre or backward or forward_pre or forward)


def replace(name: str, hooks: dict[int, Any]) -> None:
    """Replace the global hooks of a kind, named as in PyTorch.

    The dictionary stays the same object: guards of compiled steps and handles refer to it.
    """
    retained = HOOKS[name]
    with _lock:
        if hooks is not retained:
            contents = dict(hooks)
            retained.clear()
            retained.update(contents)
        _set_flag()


def _register(hooks: dict[int, Callable], hook: Callable, extra: Any = None) -> RemovableHandle:
    handle = _GlobalHandle(hooks, extra_dict=extra)
    with _lock:
        hooks[handle.id] = hook
        Flag._flambeau_is_hooked = True
    return handle


def _register_registration(hooks: dict[int, Callable], hook: Callable) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Call hook(module, name, buffer) when a buffer is registered; a result replaces it."""
    return _register_registration(buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Call hook(module, name, submodule) when a module is registered; a result replaces it."""
    return _register_registration(module_registration, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Call hook(module, name, param) when a parameter is registered; a result replaces it."""
    return _register_registration(parameter_registration, hook)


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call hook(module, args) before every forward; a result replaces the arguments."""
    return _register(forward_pre, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call hook(module, args, output) after every forward; a result replaces the output.

    With `with_kwargs` it is hook(module, args, kwargs, output). With `always_call` it is also
    called after a forward that raised, with the output so far.
    """
    handle = _register(forward, hook, [forward_always_called, forward_with_kwargs])
    if with_kwargs:
        forward_with_kwargs[handle.id] = True
    if always_call:
        forward_always_called[handle.id] = True
    return handle


def _set_backward_kind(is_full: bool) -> None:
    if State.full_backward is (not is_full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    State.full_backward = is_full


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Deprecated: use `register_module_full_backward_hook`. Receives the last node's gradients."""
    _set_backward_kind(False)
    return _register(backward, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Call hook(module, grad_input, grad_output) in backward; a result replaces grad_input."""
    _set_backward_kind(True)
    return _register(backward, hook)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call hook(module, grad_output) before every backward; a result replaces grad_output."""
    return _register(backward_pre, hook)
