"""A module's hooks: how they are registered, and `Hooks`, which calls them around forward.

A module has no hook dictionaries until one is accessed; this sets its flag `_flambeau_is_hooked`,
so that calling a module without hooks only tests that flag.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from ..autograd.handle import RemovableHandle
from ..native.foundation.public_names import class_of
from ..native.foundation.user_frames import warn
from ..tensor import Tensor
from . import global_hooks
from .error_path import locate
from .members import Members
from .non_full_hooks import register_non_full_hooks


class _WrappedHook:
    """A hook that takes its module first, and holds it by a weak reference."""

    def __init__(self, hook: Callable, module: Any = None) -> None:
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if self.with_module:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook, self.with_module = state["hook"], state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


def _add(hooks: Any, hook: Callable, prepend: bool = False, extra: Any = None) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Hooks(Members, global_hooks.Flag):
    """The part of Module that registers hooks and calls them around `forward`."""

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args) before forward; a result replaces the arguments.

        With `with_kwargs` it is hook(module, args, kwargs), and a result is (args, kwargs).
        """
        marked = self._forward_pre_hooks_with_kwargs
        handle = _add(self._forward_pre_hooks, hook, prepend, marked)
        if with_kwargs:
            marked[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call hook(module, args, output) after forward; a result replaces the output.

        With `with_kwargs` it is hook(module, args, kwargs, output). With `always_call` it is also
        called after a forward that raised.
        """
        marked = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = _add(self._forward_hooks, hook, prepend, marked)
        for is_set, marks in zip((with_kwargs, always_call), marked, strict=True):
            if is_set:
                marks[handle.id] = True
        return handle

    def register_full_backward_pre_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(module, grad_output) before backward; a result replaces grad_output."""
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) in backward; a result replaces grad_input."""
        self._flambeau_set_backward_kind(True)
        return _add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Deprecated: use `register_full_backward_hook`. Sees the last node's gradients."""
        self._flambeau_set_backward_kind(False)
        return _add(self._backward_hooks, hook)

    def _flambeau_set_backward_kind(self, is_full: bool) -> None:
        if self._is_full_backward_hook is (not is_full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self._is_full_backward_hook = is_full

    def _get_backward_hooks(self) -> tuple[list, list]:
        """The full backward hooks and the others, global ones first."""
        full_hooks: list[Callable] = []
        non_full_hooks: list[Callable] = []
        for is_full, hooks in (
            (global_hooks.State.full_backward, global_hooks.backward),
            (self._is_full_backward_hook, self._backward_hooks),
        ):
            if is_full is not None:
                (full_hooks if is_full else non_full_hooks).extend(hooks.values())
        return full_hooks, non_full_hooks

    def _get_backward_pre_hooks(self) -> list:
        return [*global_hooks.backward_pre.values(), *self._backward_pre_hooks.values()]

    def _flambeau_call_with_hooks(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        call = _HookedCall(self, args, kwargs)
        try:
            if not global_hooks.Flag._flambeau_is_hooked and not _has_hooks(self.__dict__):
                return self.forward(*args, **kwargs)  # all hooks were removed
            return call.run()
        except Exception as error:
            locate(error, self)
            call.run_always_called()
            raise


def _has_hooks(attributes: dict[str, Any]) -> Any:
    """Whether a module with these attributes has hooks around its call."""
    return (
        attributes.get("_forward_hooks")
        or attributes.get("_forward_pre_hooks")
        or attributes.get("_backward_hooks")
        or attributes.get("_backward_pre_hooks")
    )


class _HookedCall:
    """One call of a module that has hooks."""

    __slots__ = ("args", "called", "kwargs", "module", "result")

    def __init__(self, module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.called: set[int] = set()

    def run(self) -> Any:
        """Run the pre-hooks, forward, and forward hooks, with the backward hooks around them."""
        module = self.module
        full_hooks = non_full_hooks = pre_hooks = ()
        if module._backward_hooks or global_hooks.backward:
            full_hooks, non_full_hooks = module._get_backward_hooks()
        if module._backward_pre_hooks or global_hooks.backward_pre:
            pre_hooks = module._get_backward_pre_hooks()
        if module._forward_pre_hooks or global_hooks.forward_pre:
            self.run_pre_hooks()
        backward = None
        if full_hooks or pre_hooks:
            from .backward_hook import BackwardHook

            backward = BackwardHook(module, full_hooks, pre_hooks)
        if backward is not None:
            self.args = backward.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        if module._forward_hooks or global_hooks.forward:
            self.run_forward_hooks()
        if backward is not None:
            if not isinstance(self.result, (Tensor, tuple)):
                warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {class_of(self.result)}",
                )
            self.result = backward.setup_output_hook(self.result)
        if non_full_hooks:
            wrapped = [_WrappedHook(hook, module) for hook in non_full_hooks]
            register_non_full_hooks(wrapped, self.args, self.result)
        return self.result

    def run_pre_hooks(self) -> None:
        """Let the forward pre-hooks see and replace the arguments."""
        module = self.module
        with_kwargs = module._forward_pre_hooks_with_kwargs
        hooks = (*global_hooks.forward_pre.items(), *module._forward_pre_hooks.items())
        for key, hook in hooks:
            if key not in with_kwargs:
                changed = hook(module, self.args)
                if changed is not None:
                    self.args = changed if isinstance(changed, tuple) else (changed,)
                continue
            changed = hook(module, self.args, self.kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but "
                    f"got {changed}."
                )
            self.args, self.kwargs = changed

    def run_forward_hooks(self) -> None:
        """Let the forward hooks see and replace the result."""
        always_called = self.module._forward_hooks_always_called
        hooks = (*global_hooks.forward.items(), *self.module._forward_hooks.items())
        for key, hook in hooks:
            if key in always_called or key in global_hooks.forward_always_called:
                self.called.add(key)
            self.run_forward_hook(key, hook)

    def run_forward_hook(self, key: int, hook: Callable) -> None:
        """Call one forward hook; its return value, if not None, replaces the result."""
        module = self.module
        if key in module._forward_hooks_with_kwargs or key in global_hooks.forward_with_kwargs:
            changed = hook(module, self.args, self.kwargs, self.result)
        else:
            changed = hook(module, self.args, self.result)
        if changed is not None:
            self.result = changed

    def run_always_called(self) -> None:
        """After an error, call the hooks registered with `always_call` that have not run yet."""
        for owner, hooks, always_called in (
            ("global module", global_hooks.forward, global_hooks.forward_always_called),
            ("module", self.module._forward_hooks, self.module._forward_hooks_always_called),
        ):
            for key, hook in tuple(hooks.items()):
                if key not in always_called or key in self.called:
                    continue
                try:
                    self.run_forward_hook(key, hook)
                except Exception as error:
                    warn(
                        f"{owner} forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error!s}",
                    )
