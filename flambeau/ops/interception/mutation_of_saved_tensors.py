"""`torch.autograd.graph.allow_mutation_on_saved_tensors`: copies saved tensors before writes.

A saved tensor stays what it is until an operator writes to its storage. The region is a dispatch
mode, which sees that operator first and copies whatever a node still wants to read.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ...autograd import graph
from ...tensor.tensor import Tensor
from . import torch_dispatch


def _list_tensors(x: Any) -> list[Tensor]:
    """Return the tensors of a sequence, or of a single value."""
    return [t for t in (x if isinstance(x, (tuple, list)) else (x,)) if isinstance(t, Tensor)]


class _Handle:
    """What a node stores instead of a saved tensor; it dies with the node."""

    __slots__ = ("__weakref__",)


class _MutationContext:
    """The tensors that a region's nodes saved, by handle."""

    def __init__(self) -> None:
        self.original: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.cloned: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.tid_to_weakhandle: WeakValueDictionary[tuple, _Handle] = WeakValueDictionary()
        self.sid_to_tid: defaultdict[int, set[tuple]] = defaultdict(set)

    def save(self, tensor: Tensor) -> _Handle:
        """Return the handle of a tensor as it is now; saving the same window twice gives one."""
        tid = (tensor.data_ptr(), tensor._version, tensor.shape, tensor.stride(), tensor.dtype,
               tensor.is_conj(), tensor.is_neg())
        self.sid_to_tid[tensor.untyped_storage().data_ptr()].add(tid)
        handle = self.tid_to_weakhandle.get(tid)
        if handle is None:
            handle = self.tid_to_weakhandle[tid] = _Handle()
            self.original[handle] = tensor.detach()
        return handle

    def read(self, handle: _Handle) -> Tensor:
        """Return a saved tensor with the values that it had when it was saved."""
        value = self.cloned.get(handle)
        if value is None:
            value = self.original.get(handle)
        assert value is not None, (
            "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
            "in which the graph was originally recorded."
        )
        return value

    def copy_before_write(self, tensor: Tensor) -> None:
        """Copy the saved tensors in the storage of `tensor`, which is about to be written."""
        for tid in self.sid_to_tid.pop(tensor.untyped_storage().data_ptr(), ()):
            handle = self.tid_to_weakhandle.get(tid)
            if handle is not None and handle in self.original:
                self.cloned[handle] = self.original.pop(handle).clone()

    def clear(self) -> None:
        """Forget all tensors: backward through the region's graph raises from now on."""
        for table in (self.original, self.cloned, self.tid_to_weakhandle, self.sid_to_tid):
            table.clear()


class _CopyBeforeWrite:
    """A dispatch mode that copies saved tensors before an operator writes to their storage."""

    def __init__(self, context: _MutationContext) -> None:
        self.context = context

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        for written in _list_written(func, args, kwargs):
            self.context.copy_before_write(written)
        return func(*args, **kwargs)


def _list_written(func: Any, args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors that an overload writes, which PyTorch's names tell: those of `out=`,
    and the first argument of an operator whose name ends in an underscore."""
    written = _list_tensors(kwargs.get("out"))
    if func.overloadpacket.__name__.endswith("_"):
        written += _list_tensors(args[0] if args else kwargs.get("self"))
    return written


class allow_mutation_on_saved_tensors:
    """Context in which saved tensors may be written in place: backward reads the old values.

    A tensor is copied when it is first written after it was saved. Raises RuntimeError when
    nested, and AssertionError for backward after the region has ended.
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
        self.hooks = graph.saved_tensors_hooks(self.context.save, self.context.read)
        self.hooks.__enter__()
        torch_dispatch.enter(_CopyBeforeWrite(self.context))
        allow_mutation_on_saved_tensors._inside = True
        return self.context

    def __exit__(self, *exception: object) -> None:
        allow_mutation_on_saved_tensors._inside = False
        torch_dispatch.leave()
        self.context.clear()
        self.hooks.__exit__(*exception)


graph.allow_mutation_on_saved_tensors = allow_mutation_on_saved_tensors
