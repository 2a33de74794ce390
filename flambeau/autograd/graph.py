"""torch.autograd.graph: hooks on what is saved, and the graph's own objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.tensor import Tensor
from .gradient_edge import GradientEdge
from .handle import RemovableHandle
from .mode import MODE, set_saved_hooks
from .node import Node

__all__ = [
    "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]


class saved_tensors_hooks:
    """Inside, every tensor saved for backward goes through pack, and comes back through unpack."""

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.pair = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if MODE.saved_hooks_disabled is not None:
            raise RuntimeError(MODE.saved_hooks_disabled)
        set_saved_hooks((*MODE.saved_hooks, self.pair))

    def __exit__(self, *exception: object) -> None:
        set_saved_hooks(MODE.saved_hooks[:-1])


class save_on_cpu(saved_tensors_hooks):
    """Saved tensors are kept in main memory, where they are already."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: x, lambda x: x)


class _MutationContext:
    """The saved copies of a region; `clear` forgets them, and with them the graph's backward."""

    def __init__(self) -> None:
        self.copies: dict[int, Tensor] = {}

    def clear(self) -> None:
        """Forget all copies."""
        self.copies.clear()


class allow_mutation_on_saved_tensors:
    """Inside, tensors may be written to in place after they were saved: backward sees copies.

    A tensor is copied when it is saved, which costs its memory and time: PyTorch copies at the
    write. RuntimeError when nested, and for backward after the region has ended.
    https://pytorch.org/docs/stable/autograd.html

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y.sin().sum()
    ...     y.mul_(2)  # z's backward wants y as it was
    ...     z.backward()
    tensor([2., 2.], grad_fn=<MulBackward0>)
    >>> x.grad
    tensor([0.5403, 0.5403])
    """

    _inside = False

    def __enter__(self) -> _MutationContext:
        if allow_mutation_on_saved_tensors._inside:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self.context = _MutationContext()
        self.hooks = saved_tensors_hooks(self._pack, self._unpack)
        self.hooks.__enter__()
        allow_mutation_on_saved_tensors._inside = True
        return self.context

    def __exit__(self, *exception: object) -> None:
        allow_mutation_on_saved_tensors._inside = False
        self.context.clear()
        self.hooks.__exit__(*exception)

    def _pack(self, tensor: Tensor) -> int:
        copies = self.context.copies
        copies[len(copies)] = tensor.detach().clone()
        return len(copies) - 1

    def _unpack(self, key: int) -> Tensor:
        known = self.context.copies.get(key)
        if known is None:
            raise RuntimeError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )
        return known


class disable_saved_tensors_hooks:
    """Inside, saved-tensor hooks raise RuntimeError with the message given."""

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
    """Where the tensor's gradient arrives."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does "
                           "not require gradients")
    return GradientEdge.of(tensor)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write to the tensor's memory."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._bump()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all"
) -> RemovableHandle:
    """Call fn with the gradients of all the tensors when they are all known, or with the first."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    result: dict[int, Any] = {}

    def hook_of(i: int) -> Callable:
        def hook(g: Tensor) -> None:
            if mode == "any":
                if not result:
                    result[i] = g
                    fn(g)
                return
            result[i] = g
            if len(result) == len(tensors):
                grads = [result[k] for k in range(len(tensors))]
                result.clear()
                fn(grads)

        return hook

    handles = [t.register_hook(hook_of(i)) for i, t in enumerate(tensors)]

    class Handle(RemovableHandle):
        def __init__(self) -> None:
            self.handles = handles

        def remove(self) -> None:
            for handle in self.handles:
                handle.remove()

    return Handle()


