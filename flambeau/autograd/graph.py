"""torch.autograd.graph: hooks on saved tensors, and the graph's nodes and edges."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.tensor import Tensor
from . import node as graph_node
from .engine import get_task_number, will_run
from .function import BackwardCFunction, FunctionCtx
from .gradient_edge import GradientEdge, find_target
from .handle import RemovableHandle
from .mode import MODE, set_saved_hooks

__all__ = [
    "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]

allow_mutation_on_saved_tensors: Any  # attached by the layer above, which sees all writes


class Node(ABC):
    """Virtual base class of the nodes that `grad_fn` returns, and of a Function's context.

    >>> y = torch.ones(2, requires_grad=True) * 2
    >>> isinstance(y.grad_fn, torch.autograd.graph.Node)
    True
    """

    @abstractmethod
    def name(self) -> str:
        """Return the class name, as in 'MulBackward0'."""

    @property
    @abstractmethod
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, output number) per input; the node is None for inputs without a gradient."""

    @property
    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """A dictionary for arbitrary user data."""

    @abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call fn(gradients of the inputs, gradients of the outputs) after the node."""

    @abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call fn(gradients of the outputs) before the node."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> Any:
        if cls is Node and issubclass(
            subclass, (graph_node.Node, BackwardCFunction, FunctionCtx)
        ):
            return True
        return NotImplemented


class saved_tensors_hooks:
    """Context in which tensors saved for backward pass through pack, and unpack when read."""

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.pair = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if MODE.saved_hooks_disabled is not None:
            raise RuntimeError(MODE.saved_hooks_disabled)
        set_saved_hooks((*MODE.saved_hooks, self.pair))

    def __exit__(self, *exception: object) -> None:
        set_saved_hooks(MODE.saved_hooks[:-1])


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in main memory: no change, as they are there already."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: x, lambda x: x)


class disable_saved_tensors_hooks:
    """Context in which saved-tensor hooks raise RuntimeError with the given message."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        if MODE.saved_hooks:
            raise RuntimeError(self.message)
        self.previous = MODE.saved_hooks_disabled
        MODE.saved_hooks_disabled = self.message

    def __exit__(self, *exception: object) -> None:
        MODE.saved_hooks_disabled = self.previous


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge where the tensor's gradient arrives."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does "
                           "not require gradients")
    return GradientEdge.of(tensor)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Increment the version counter of a tensor, or of each of several."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._bump()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all"
) -> RemovableHandle:
    """Call fn once per backward pass: with the gradients of all tensors, or with the first one.

    With "all", fn receives a list, with None for tensors that the pass doesn't reach; if it reaches
    none, fn is not called. With "any", fn receives the first gradient computed.

    >>> x = torch.ones(1, requires_grad=True)
    >>> y = x * 3
    >>> handle = torch.autograd.graph.register_multi_grad_hook((x, y), print)
    >>> y.backward()
    [tensor([3.]), tensor([1.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    collected = _CollectedGradients(tensors, fn, mode)
    return _MultiHandle([
        t.register_hook(collected.hook(i)) for i, t in enumerate(tensors)
        if mode == "all" or t.requires_grad
    ])


class _CollectedGradients:
    """The gradients received by the tensors of a multi-grad hook, by backward pass."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable, mode: str) -> None:
        self.targets, self.fn, self.mode = [find_target(t) for t in tensors], fn, mode
        self.lock = threading.Lock()
        self.last_pass: int | None = None  # last pass that called `fn`, with "any"
        # By pass number: the gradients, and the count of outstanding ones.
        self.passes: dict[int, tuple[list[Tensor | None], list[int]]] = {}

    def hook(self, index: int) -> Callable[[Tensor], None]:
        """Return the hook of the tensor at `index`."""
        if self.mode == "any":
            return self.take_first
        return lambda g: self.take(index, g)

    def take_first(self, g: Tensor) -> None:
        """Call the function with the first gradient of a pass."""
        number = get_task_number()
        with self.lock:
            if self.last_pass == number:
                return
            self.last_pass = number
        self.fn(g)

    def take(self, index: int, g: Tensor) -> None:
        """Store a gradient; after the last one of a pass, call the function with all of them."""
        number = get_task_number()
        assert number is not None
        with self.lock:
            if number not in self.passes:
                expected = sum(will_run(self.targets, self.targets[index]))
                self.passes[number] = [None] * len(self.targets), [expected]
            grads, remaining = self.passes[number]
            grads[index] = g
            remaining[0] -= 1
            if remaining[0]:
                return
            del self.passes[number]
        self.fn(grads)


class _MultiHandle(RemovableHandle):
    """Removes the hooks of several tensors."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Unregister the hooks; repeated calls do nothing."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state
