"""copy.deepcopy of tensors: memory shared by several tensors is copied once and stays shared."""

from __future__ import annotations

import copy
import copyreg
from typing import Any

import numpy as np

from .layout import find_owner
from .meta import MetaArray
from .storage import UntypedStorage, get_offset, window
from .tensor import Tensor, attach, wrap
from .windows.lazy_window import LazyWindow
from .windows.opaque_window import OpaqueWindow

# Attributes that belong to the graph a tensor is part of: its copy is not part of it.
_GRAPH_ATTRIBUTES = ("_accumulator", "_backward_hooks", "_post_accumulate_grad_hooks", "_retained")


def deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a leaf with copied memory; RuntimeError for a tensor that is not a leaf."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if "_flambeau_device" in self.__dict__:
        result = _clone_wrapper(self)
    elif isinstance(self._array, OpaqueWindow):
        result = self.detach().clone()
    else:
        _check_new_empty(self)
        result = wrap(_copy_array(self._array, memo))
    if type(self) is not type(result):
        result = result._alias(type(self))
    memo[id(self)] = result
    if self._requires_grad:
        result._requires_grad = result._tracked = True
    if self._grad is not None:
        result._grad = copy.deepcopy(self._grad, memo)
    for name in _list_slots(type(self)):
        if hasattr(self, name):
            setattr(result, name, copy.deepcopy(getattr(self, name), memo))
    attributes = {k: v for k, v in self.__dict__.items() if k not in _GRAPH_ATTRIBUTES}
    if attributes:
        result.__dict__.update(copy.deepcopy(attributes, memo))
    return result


def _check_new_empty(self: Tensor) -> None:
    """Raise RuntimeError for a subclass whose `new_empty` returns another class."""
    cls = type(self)
    if cls is Tensor or type(self.new_empty([])) is cls:
        return
    error = RuntimeError(
        "The default implementation of __deepcopy__() for non-wrapper subclasses only works for "
        "subclass types that properly implement new_empty() and for which that function returns "
        "another instance of the same subclass. You should either properly implement new_empty() "
        "for your subclass or override __deepcopy__() if it is intended behavior for new_empty() "
        "to return an instance of a different type."
    )
    error.add_note(f"Define `def new_empty(self, shape): return type(self)(shape)` in "
                   f"{cls.__name__}, or __deepcopy__.")
    raise error


def _clone_wrapper(self: Tensor) -> Tensor:
    """Return a wrapper's clone, which its class makes; RuntimeError if it is of another class."""
    result = alias_with_attributes(self).clone()  # the clone of `self` would have a history
    if type(result) is not type(self):
        error = RuntimeError(
            "The default implementation of __deepcopy__() for wrapper subclasses only works for "
            "subclass types that properly implement clone() for which cloning returns another "
            "instance of the same subclass. You should either properly implement clone() for your "
            "subclass or override __deepcopy__() if it is intended behavior for clone() to return "
            "an instance of a different type."
        )
        error.add_note(f"{type(self).__name__}.__torch_dispatch__ returned a "
                       f"{type(result).__name__} for aten.clone: wrap it in the class.")
        raise error
    return result


def _list_slots(cls: type[Tensor]) -> list[str]:
    """Return the names of the slots that subclasses of Tensor add."""
    if cls is Tensor:
        return []
    names: Any = copyreg._slotnames  # type: ignore[attr-defined]  # as pickle finds them
    return [name for name in names(cls) if name not in names(Tensor)]


def _copy_array(array: Any, memo: dict[int, Any]) -> Any:
    """Copy the memory that an array is a window of, once per memo; return the same window of it."""
    if array.__class__ is LazyWindow:  # resolve conjugate and negative bits
        return array.like(_copy_array(array.memory, memo)).resolved()
    if array.__class__ is MetaArray or array.size == 0:
        return array.copy()
    owner = find_owner(array)
    if owner is array and array.flags.c_contiguous and id(owner) not in memo:
        memo[id(owner)] = result = array.copy()
        _keep_alive(owner, memo)
        return result
    if id(owner) not in memo:
        memo[id(owner)] = owner.copy("K")
        _keep_alive(owner, memo)
    copied = memo[id(owner)]
    flat = (copied if copied.flags.c_contiguous else copied.T).reshape(-1).view(np.uint8)
    strides = [s // array.itemsize for s in array.strides]
    if flat.size == 0 or not (copied.flags.c_contiguous or copied.flags.f_contiguous):
        return array.copy("K")
    return window(flat, array.dtype, get_offset(array), array.shape, strides)


def _keep_alive(owner: Any, memo: dict[int, Any]) -> None:
    """Hold a copied array as long as the memo, as copy.deepcopy does: its id must not be reused."""
    memo.setdefault(id(memo), []).append(owner)


def _copy_storage(self: UntypedStorage, memo: dict[int, Any]) -> UntypedStorage:
    """Return a copy of a storage; the same copy each time for one memo."""
    result: UntypedStorage | None = memo.get(id(self))
    if result is None:
        result = memo[id(self)] = UntypedStorage(_copy_array(self._bytes, memo))
    return result


attach(__deepcopy__=deepcopy)
setattr(UntypedStorage, "__deepcopy__", _copy_storage)  # noqa: B010  # declared without it


def alias_with_attributes(tensor: Tensor) -> Tensor:
    """Return a detached alias: an object of the tensor's class with its memory and attributes."""
    cls = type(tensor)
    result = tensor._alias(cls)
    result.__dict__.update(tensor.__dict__)
    for name in _list_slots(cls):
        if hasattr(tensor, name):
            setattr(result, name, getattr(tensor, name))
    return result
