"""torch.utils.module_tracker: which modules are running, forward or backward, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self
from weakref import WeakKeyDictionary

from ..autograd.engine import queue_callback
from ..autograd.graph import register_multi_grad_hook
from ..autograd.mode import MODE
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ..tensor.tensor import Tensor
from ..tensor.tree import collect_leaves

__all__ = ["ModuleTracker"]

_ROOT = "Global"


class ModuleTracker:
    """A context that keeps in `parents` the names of the modules that are running, and "Global".

    The first module called is named by its class, those in it by their attributes. A module's
    backward runs from the gradients of its outputs to those of its inputs.

    >>> layer = nn.Linear(1, 1)
    >>> with torch.utils.module_tracker.ModuleTracker() as tracker:
    ...     hook = layer.register_forward_pre_hook(lambda *args: print(sorted(tracker.parents)))
    ...     y = layer(torch.ones(1))
    ['Global', 'Linear']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {_ROOT}
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._handles: list[Any] = []
        self._resets = False  # a callback of the running backward does

    @property
    def is_bw(self) -> bool:
        """Whether a backward is running."""
        return MODE.task is not None

    def __enter__(self) -> Self:
        self._handles = [register_module_forward_pre_hook(self._begin),
                         register_module_forward_hook(self._end)]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _name(self, module: Any) -> str:
        if module not in self._names:
            root = type(module).__name__
            for name, submodule in module.named_modules():
                self._names[submodule] = f"{root}.{name}" if name else root
        return self._names[module]

    def _begin(self, module: Any, args: tuple) -> None:
        name = self._name(module)
        self.parents.add(name)
        self._hook(args, lambda grads: self.parents.discard(name))

    def _end(self, module: Any, args: tuple, output: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        self._hook(output, lambda grads: self._begin_backward(name))

    def _begin_backward(self, name: str) -> None:
        if not self._resets:
            self._resets = True
            queue_callback(self._reset)
        self.parents.add(name)

    def _reset(self) -> None:
        self.parents, self._resets = {_ROOT}, False

    def _hook(self, value: Any, function: Callable[[Any], None]) -> None:
        tensors = [x for x in collect_leaves(Tensor, value) if x.requires_grad]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, function))
