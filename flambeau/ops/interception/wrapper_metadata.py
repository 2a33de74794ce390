"""Metadata for which a tensor's class answers: `dispatch_sizes_strides_policy` and its kin.

The first tensor of a class that asks for it gives the class its own `shape`, `stride`, `device`
and so on, which hand a query to `__torch_dispatch__`. Other classes keep Tensor's. The class itself
shows Tensor's attributes (`Wrapper.size is Tensor.size`): programs check that it overrides none.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from ...tensor.layout import contiguous_format
from ...tensor.size import Size
from ...tensor.tensor import Tensor
from ..core.aten import aten, prim
from ..core.operator import PUBLIC
from . import torch_dispatch

__all__ = ["let_class_answer"]

_QUERIES = "_flambeau_queries"  # in the __dict__ of a tensor: the queries that its class answers
_STRIDES = frozenset(("stride", "is_contiguous"))
_SIZES = _STRIDES | {"size", "dim", "numel", "storage_offset"}
_POLICIES = {None: frozenset[str](), "strides": _STRIDES, "sizes": _SIZES}


class _Method:
    """A method of the tensors of a class; the class itself has Tensor's."""

    def __init__(self, name: str, function: Callable) -> None:
        self._name, self._function = name, function

    def __get__(self, tensor: Tensor | None, cls: type) -> Any:
        return getattr(Tensor, self._name) if tensor is None else \
            MethodType(self._function, tensor)


class _Property(_Method):
    """A property of the tensors of a class that cannot be assigned."""

    def __get__(self, tensor: Tensor | None, cls: type) -> Any:
        return getattr(Tensor, self._name) if tensor is None else self._function(tensor)

    def __set__(self, tensor: Tensor, value: Any) -> None:
        getattr(Tensor, self._name).__set__(tensor, value)  # raises AttributeError


def let_class_answer(tensor: Tensor, policy: str | None, device: bool, layout: bool) -> None:
    """Let the class of a tensor answer queries of its sizes or strides, device and layout.

    Raises ValueError for a policy other than "sizes" and "strides".
    """
    if policy not in _POLICIES:
        raise ValueError(
            f"Unknown sizes_strides_policy: {policy}; expected 'strides' or 'sizes'")
    queries = _POLICIES[policy] | {name for name,
                                   is_answered in (("device", device), ("layout", layout))
                                 if is_answered}
    if not queries:
        return
    tensor.__dict__[_QUERIES] = queries
    cls = type(tensor)
    for kind, functions in ((_Method, _METHODS), (_Property, _PROPERTIES)):
        for name, function in functions.items():
            owner = next(base for base in cls.__mro__ if name in base.__dict__)
            if owner is Tensor:
                setattr(cls, name, kind(name, function))


def _answer(tensor: Tensor, query: str, func: Any, *args: Any) -> Any:
    """Return the class's answer, or None if it has none or need not answer."""
    if query not in tensor.__dict__.get(_QUERIES, ()) or torch_dispatch.STATE.classes_off:
        return None
    return torch_dispatch.hand_over(
        func, (tensor, *args), {}, f"torch.ops.{func.overloadpacket}")


def _answer_required(tensor: Tensor, query: str, func: Any, kind: str) -> Any:
    """Return the class's answer to a query that has no default."""
    result = _answer(tensor, query, func)
    if result is None and query in tensor.__dict__.get(_QUERIES, ()) \
            and not torch_dispatch.STATE.classes_off:
        raise RuntimeError(f"{query} returned invalid type NoneType, expected {kind}")
    return result


def _find_size(self: Tensor, dim: int | None = None) -> Any:
    if dim is not None:
        _find_dim(self)  # PyTorch wraps the index
    sizes = _answer(self, "size", aten.sym_size.default)
    if sizes is None:
        return Tensor.size(self, dim)
    return tuple.__new__(Size, sizes) if dim is None else sizes[dim]


def _find_dim(self: Tensor) -> int:
    rank = _answer_required(self, "dim", aten.dim.default, "int")
    return Tensor.dim(self) if rank is None else rank


def _find_numel(self: Tensor) -> Any:
    count = _answer(self, "numel", aten.sym_numel.default)
    return Tensor.numel(self) if count is None else count


def _find_stride(self: Tensor, dim: int | None = None) -> Any:
    strides = _answer(self, "stride", aten.sym_stride.default)
    if strides is None:
        return Tensor.stride(self, dim)
    return tuple(strides) if dim is None else strides[dim]


def _find_storage_offset(self: Tensor) -> Any:
    offset = _answer(self, "storage_offset", aten.sym_storage_offset.default)
    return Tensor.storage_offset(self) if offset is None else offset


def _find_is_contiguous(self: Tensor, memory_format: Any = contiguous_format) -> bool:
    func = aten.is_contiguous
    result = _answer(self, "is_contiguous", func.default) if memory_format is contiguous_format \
        else _answer(self, "is_contiguous", func.memory_format, memory_format)
    return Tensor.is_contiguous(self, memory_format) if result is None else bool(result)


def _make_contiguous(self: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    if _find_is_contiguous(self, memory_format):
        return self
    return self.clone(memory_format=memory_format)


def _find_address(self: Tensor) -> int:
    _answer(self, "numel", aten.numel.default)
    return Tensor.data_ptr(self)


def _find_device(self: Tensor) -> Any:
    place = _answer_required(self, "device", prim.device.default, "Device")
    return _tensor_device(self) if place is None else place


def _find_layout(self: Tensor) -> Any:
    form = _answer_required(self, "layout", prim.layout.default, "Layout")
    return _tensor_layout(self) if form is None else form


_tensor_device: Callable[[Tensor], Any] = Tensor.__dict__["device"].fget
_tensor_layout: Callable[[Tensor], Any] = Tensor.__dict__["layout"].fget
_METHODS: dict[str, Callable] = {
    "size": _find_size, "dim": _find_dim, "ndimension": _find_dim, "numel": _find_numel,
    "nelement": _find_numel, "stride": _find_stride, "storage_offset": _find_storage_offset,
    "is_contiguous": _find_is_contiguous, "contiguous": _make_contiguous,
    "data_ptr": _find_address,
}
_PROPERTIES: dict[str, Callable] = {
    "shape": _find_size, "ndim": _find_dim, "device": _find_device, "layout": _find_layout,
}


# ----------------------------------------------------- queries that are operators of aten only


def _has_strides_of(self: Tensor, memory_format: Any) -> bool:
    result = _answer(self, "is_contiguous", aten.is_strides_like_format.default, memory_format)
    return Tensor.is_contiguous(self, memory_format) if result is None else bool(result)


def _is_non_overlapping_and_dense(self: Tensor) -> bool:
    result = _answer(self, "is_contiguous", aten.is_non_overlapping_and_dense.default)
    if result is not None:
        return bool(result)
    expected = 1
    for stride, size in sorted(zip(Tensor.stride(self), Tensor.size(self), strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _query_sizes(self: Tensor) -> Any:
    return tuple(self.size())


def _query_strides(self: Tensor) -> Any:
    return tuple(self.stride())


PUBLIC.setdefault("aten", {}).update(
    is_strides_like_format=_has_strides_of,
    is_non_overlapping_and_dense=_is_non_overlapping_and_dense,
    sym_numel=lambda self: self.numel(), sym_storage_offset=lambda self: self.storage_offset(),
    sym_size=lambda self, dim=None: _query_sizes(self) if dim is None else self.shape[dim],
    sym_stride=lambda self, dim=None: _query_strides(self) if dim is None else self.stride(dim),
)
PUBLIC.setdefault("prim", {}).update(
    device=lambda self: self.device, layout=lambda self: self.layout)
