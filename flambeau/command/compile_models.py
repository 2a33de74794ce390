"""`flambeau --compile PROGRAM`: compiles each model that the program calls.

A model is the outermost module of a call. It compiles as by `model.compile()`, on its first call,
so that its type, state and pickles stay what they are.
"""

from __future__ import annotations

import threading
from typing import Any


class _Depth(threading.local):
    """How many module calls this thread is inside of."""

    calls = 0


def start() -> None:
    """From now on, compile each module at its first outermost call."""
    from ..nn.module import Module

    original = Module.__call__
    depth = _Depth()

    def __call__(self: Module, *args: Any, **kwargs: Any) -> Any:
        if depth.calls == 0 and self._compiled_call_impl is None and _is_model(self):
            self.compile()
        depth.calls += 1
        try:
            return original(self, *args, **kwargs)
        finally:
            depth.calls -= 1

    Module.__call__ = __call__


def _is_model(module: Any) -> bool:
    """Whether compiling pays: a module with submodules, unlike losses and activations."""
    return next(module.children(), None) is not None
