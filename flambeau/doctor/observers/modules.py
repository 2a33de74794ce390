"""ModuleObserver: reports calls of modules from outside, their construction, mode and state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...autograd.mode import MODE
from ..events import ModuleCall
from ..places import Spot, find_constructor, find_spot

if TYPE_CHECKING:
    from ..session import Session


class ModuleObserver:
    """Keeps the stack of running modules, and reports calls from outside."""

    def __init__(self, session: Session) -> None:
        self.session, self.stack = session, session.stack
        self.sets_mode = False  # `Module.train` is running

    def call(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`Module.__call__`."""
        session, stack, module = self.session, self.stack, args[0]
        if session.busy or threading.get_ident() != session.thread or (
            stack and stack[-1] is module
        ):
            return original(*args, **kwargs)
        if not stack:
            session.call_spot = find_spot()
        stack.append(module)
        try:
            output = original(*args, **kwargs)
        finally:
            stack.pop()
            if not stack:
                spot, session.call_spot = session.call_spot, None
        if not stack:
            self._report_call(module, args, kwargs, output, spot)
        elif session.watching and not module._modules and session.handlers["on_layer"]:
            self._emit("on_layer", module, args, kwargs, output, find_spot())
        return output

    def _report_call(
        self, module: Any, args: tuple, kwargs: dict, output: Any, spot: Spot | None
    ) -> None:
        """Report a finished call from outside; a module without children is a layer, too."""
        session = self.session
        if type(module).__module__.startswith("flambeau.nn.modules.loss"):
            return
        session.roots.setdefault(module, None)
        session.follow(module)
        if not module._modules and session.watching:
            self._emit("on_layer", module, args, kwargs, output, spot)
        self._emit("on_call", module, args, kwargs, output, spot)

    def _emit(
        self, event: str, module: Any, args: tuple, kwargs: dict, output: Any, spot: Spot | None
    ) -> None:
        session = self.session
        session.emit(event, ModuleCall(module, args[1:], kwargs, output, spot, MODE.grad,
                                       session.clock.passes, session.updates))

    def construct(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`Module.__init__`."""
        original(*args, **kwargs)
        session = self.session
        spot = None if session.busy else find_constructor(args[0])
        if spot is not None:
            session.built_at[args[0]] = spot
            session.emit("on_module_constructed", args[0], spot)

    def mode(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`Module.train`, which recurses into children: only the outermost call is reported."""
        session = self.session
        if session.busy or self.sets_mode:
            return original(*args, **kwargs)
        self.sets_mode = True
        try:
            result = original(*args, **kwargs)
        finally:
            self.sets_mode = False
        session.wake()
        session.follow(args[0])
        mode = args[1] if len(args) > 1 else kwargs.get("mode", True)
        session.emit("on_mode", args[0], mode, find_spot())
        return result
