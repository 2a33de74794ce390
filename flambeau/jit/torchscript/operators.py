"""Operators by their names in archive code: `relu`, `append`, `prim.dtype`.

Archive code can call nothing else: an unknown name is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...export.aten_functions import find_aten_function, number_of_dtype
from ...futures import Future
from ...ops import quantized
from ...ops.registration.custom_operators import NAMESPACES
from ...tensor.absent import Lacking
from ...tensor.devices import device
from ...tensor.random.generator import Generator
from ...tensor.tensor import Tensor
from .containers import MIXED, PLAIN
from .expressions import ScriptSyntaxError
from .objects import ScriptObject

__all__ = ["TABLE", "find"]


def _min(*args: Any, **kwargs: Any) -> Any:
    return min(*args, **kwargs)


def _wait(future: Any) -> Any:
    return future.wait() if isinstance(future, Future) else future


def _layout(value: Tensor) -> int:
    names = ("torch.strided", "torch.sparse_coo", "torch.sparse_csr", "torch._mkldnn",
             "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc")
    return names.index(str(value.layout))


def _unpack(value: Any) -> Any:
    return value


def _type(value: Any) -> str:
    return str(value.type)


def _view(value: Tensor, *lengths: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """View as a size, a list or ints; dtypes must be passed by keyword."""
    if dtype is not None:
        return find_aten_function("view")(value, dtype)  # type: ignore[misc]
    return value.view(*lengths) if lengths else value.view(size)


def _index(value: Any) -> Any:
    return value.index


# TorchScript's prim:: operators, and others that belong to neither aten nor containers.
TABLE: dict[str, Callable[..., Any]] = {
    "device": device, "prim.dtype": lambda x: number_of_dtype(x.dtype),
    "prim.device": lambda x: x.device, "prim.layout": _layout,
    "prim.requires_grad": lambda x: x.requires_grad, "prim.is_cuda": lambda x: x.is_cuda,
    "prim.is_sparse": lambda x: x.is_sparse, "prim.is_meta": lambda x: x.is_meta,
    "prim.is_quantized": lambda x: x.is_quantized, "prim.is_leaf": lambda x: x.is_leaf,
    "prim.is_cpu": lambda x: x.device.type == "cpu", "prim.is_mkldnn": lambda x: False,
    "prim.is_sparse_csr": lambda x: str(x.layout) == "torch.sparse_csr",
    **{f"prim.is_{kind}": lambda x: False for kind in (
        "mps", "xpu", "xla", "vulkan", "ipu", "ort", "maia", "mtia", "hpu", "nested")},
    "prim.data": lambda x: x.data, "prim.grad": lambda x: x.grad,
    "prim.shape": lambda x: list(x.shape), "prim.ndim": lambda x: x.ndim,
    "prim.itemsize": lambda x: x.itemsize, "prim.nbytes": lambda x: x.nbytes,
    "prim.name": lambda x: x.name, "prim.id": id, "prim.type": _type, "prim.index": _index,
    "prim.NumToTensor": lambda x: find_aten_function("tensor")(x),  # type: ignore[misc]
    "_to_tensor": lambda x: find_aten_function("tensor")(x),  # type: ignore[misc]
    "prim.min": _min, "prim.max": lambda *args: max(*args), "prim.abs": abs,
    "prim.rangelist": lambda *args: list(range(*args)), "wait": _wait, "prim.awaitable": _wait,
    "prim.unchecked_unwrap_optional": _unpack, "prim.unchecked_cast": lambda kind, x: x,
    "prim.TupleUnpack": _unpack, "prim.ListUnpack": _unpack, "prim.Print": print,
    "prim.tolist": lambda x, *rest: x.tolist(),
    "is_scripting": lambda: True, "jit.is_scripting": lambda: True,
    "Generator": Generator, "warnings.warn": lambda *args: find_aten_function("warn")(*args),  # type: ignore[misc]
    "prim.isfinite": MIXED["isfinite"], "view": _view,
}


@functools.cache
def find(name: str) -> Callable[..., Any]:
    """Return the operator with this name. Raise ScriptSyntaxError if unknown.

    `name` is an aten operator or has a namespace prefix ("prim.dtype").
    """
    registered = TABLE.get(name) or PLAIN.get(name)
    if registered is not None:
        return registered
    space, _, bare = name.rpartition(".")
    if space in ("prim", "aten", "math", "autograd"):
        return find(bare)
    if space:
        return _find_in_library(space, bare)
    mixed = MIXED.get(name)
    aten = None if name.startswith("__") else find_aten_function(name)
    if mixed is None and aten is None:
        error = ScriptSyntaxError(f"Unknown builtin op: aten::{name}. flambeau has no such "
                                  "operator")
        error.add_note("Report it, or save the model again without this operator")
        raise error
    if mixed is None or aten is None:
        return aten or mixed  # type: ignore[return-value]
    return _dispatch_on_values(mixed, aten)


_OF_LISTS = (MIXED["index"], MIXED["count"])


def _dispatch_on_values(mixed: Callable[..., Any], aten: Callable[..., Any]) -> Callable[..., Any]:
    """Dispatch to the aten operator if an argument is a tensor, else to the Python one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if mixed in _OF_LISTS and isinstance(args[0], list):  # of a list, even for a tensor
            return mixed(*args, **kwargs)
        if any(isinstance(a, Tensor) for a in args) and \
                not any(isinstance(a, ScriptObject) for a in args):
            return aten(*args, **kwargs)
        if args and isinstance(args[0], (list, tuple)) and args[0] and \
                isinstance(args[0][0], Tensor) and kwargs:
            return aten(*args, **kwargs)
        return mixed(*args, **kwargs)

    return call


# Namespaces whose operators can access files.
_REFUSED_SPACES = ("image", "video_reader")


def _find_in_library(space: str, name: str) -> Callable[..., Any]:
    """Return an operator registered by a library such as torchvision."""
    known = quantized if space == "quantized" else NAMESPACES.get(space)
    if space == "quantized" and not name.startswith("_"):
        own = getattr(quantized, name)
        if callable(own) and not isinstance(own, Lacking):
            return own
    if space not in _REFUSED_SPACES and known is not None and name in dir(known):
        return getattr(known, name)
    error = ScriptSyntaxError(f"Unknown builtin op: {space}::{name}")
    error.add_note(f"Import the library that registers {space}::{name} before torch.jit.load")
    raise error
