"""ModeRecorder: the part of an export's recorder that notes the grad mode of each node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..autograd.mode import is_grad_enabled, no_grad
from ..fx.node import Node
from ..overrides import TorchFunctionMode
from .gradient_regions import MODE_META

__all__ = ["ModeRecorder"]


class ModeRecorder(TorchFunctionMode):
    """Handles calls without gradients, which the tensors of a trace do not need."""

    sees_operators = False  # entries of torch.ops as such; it sees the functions that they run
    whole_operators: tuple[Any, ...] = ()  # the entries that it wants all the same
    has_modes = False  # whether nodes note the grad mode of the program
    mode: bool | None = None  # that mode, while a call is handled without gradients

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Dispatch a call."""
        if not self.has_modes:
            return self.dispatch(func, args, kwargs or {})
        with self.without_gradients():
            return self.dispatch(func, args, kwargs or {})

    def dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Record a call, answer a metadata query, or refuse it."""
        raise NotImplementedError(type(self).__name__)

    @contextmanager
    def without_gradients(self) -> Iterator[None]:
        """Compute without gradients in this context; nodes note the mode outside of it."""
        before = self.mode
        self.mode = is_grad_enabled() if before is None else before
        try:
            with no_grad():
                yield
        finally:
            self.mode = before

    def note_mode(self, node: Node) -> None:
        """Store the program's grad mode in a node's meta."""
        if self.has_modes:
            node.meta[MODE_META] = is_grad_enabled() if self.mode is None else self.mode
