"""Maps between `torch.*` names in files and flambeau's objects, in both directions.

Whether a file may use a name is decided in safe_globals.py.
"""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from types import FunctionType
from typing import Any

from .. import ops
from ..tensor import Size, Tensor
from ..tensor.devices import device
from ..tensor.dtypes import ALIASES, QUANTIZED, all_dtypes, dtype
from ..tensor.layout import (
    layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided,
)
from ..tensor.quantizers import QSCHEMES, qscheme
from ..tensor.random.generator import Generator
from ..tensor.storage import TypedStorage, UntypedStorage
from . import rebuild


class FunctionTable:
    """Stand-in for the class in which PyTorch pickles its functions: `getattr(table, 'relu')`."""

    def __getattr__(self, name: str) -> Any:
        result = getattr(importlib.import_module("flambeau"), name, None)
        return getattr(ops, name) if result is None else result


FUNCTIONS = FunctionTable()


def _get_layout(name: str) -> layout:
    """Return the layout named 'torch.strided', ... Raises KeyError for an unknown one."""
    if type(name) is not str:  # a file may contain anything here, even unhashable objects
        raise TypeError(f"a layout's name is a str, not {type(name).__name__}")
    return _LAYOUTS[name]


_LAYOUTS = {
    str(item): item
    for item in (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
}


def _list_special_names() -> dict[str, Any]:
    table: dict[str, Any] = {
        "torch.Tensor": Tensor,
        "torch.Size": Size,
        "torch.device": device,
        "torch.dtype": dtype,
        "torch.layout": layout,
        "torch.qscheme": qscheme,
        "torch._C.Generator": Generator,
        "torch._C._VariableFunctionsClass": FUNCTIONS,
        "torch.storage.UntypedStorage": UntypedStorage,
        "torch.storage.TypedStorage": TypedStorage,
        "torch.serialization._get_layout": _get_layout,
        "torch._tensor._rebuild_from_type_v2": rebuild._rebuild_from_type_v2,
    }
    for function in rebuild.REBUILDERS:
        table[f"torch._utils.{function.__name__}"] = function
    for name, storage_type in rebuild.STORAGE_TYPES.items():
        table[f"torch.{name}"] = storage_type
    for name, single in {**ALIASES, **all_dtypes(), **QUANTIZED, **QSCHEMES}.items():
        table[f"torch.{name}"] = single
    return table


SPECIAL = _list_special_names()
_NAMES_BY_ID = {
    id(value): (module, last)
    for name, value in SPECIAL.items() for module, _, last in [name.rpartition(".")]
}
# Names that older files use for the same objects.
_OTHER_NAMES = {
    "torch.UntypedStorage": UntypedStorage,
    "torch.tensor._rebuild_from_type_v2": rebuild._rebuild_from_type_v2,
    "torch.Generator": Generator,
}


def find_special(full_name: str) -> Any:
    """Return the object of a name that exists in no flambeau module, or None."""
    module, _, name = full_name.rpartition(".")
    if name.endswith("Storage") and module in ("torch", "torch.storage", "torch.cuda"):
        storage_type = rebuild.STORAGE_TYPES.get(name)
        if storage_type is not None:
            return storage_type
    return SPECIAL.get(full_name, _OTHER_NAMES.get(full_name))


def find_torch_name(value: Any) -> tuple[str, str] | None:
    """Return PyTorch's module and name of a flambeau object, or None."""
    name = _NAMES_BY_ID.get(id(value)) or find_function_name(value)
    if name is not None:
        return name
    if not isinstance(value, (type, FunctionType)):
        return None
    module = value.__module__ or ""
    if module != "flambeau" and not module.startswith("flambeau."):
        return None
    public = _find_public_module("torch" + module[len("flambeau") :])
    return public, value.__qualname__


def _find_public_module(module: str) -> str:
    """Return PyTorch's module for names that flambeau keeps in `tensor` or `ops`."""
    if module.startswith("torch.ops.quantized."):
        return "torch.ops.quantized"
    for inner in ("torch.ops", "torch.tensor"):
        if module == inner or module.startswith(inner + "."):
            return "torch"
    return module


# Namespaces of functions, and where PyTorch's files expect those implemented in C++.
_NAMESPACES = {
    "flambeau": "torch", "flambeau.nn.functional": "torch._C._nn",
    "flambeau.linalg": "torch._C._linalg", "flambeau.special": "torch._C._special",
    "flambeau.fft": "torch._C._fft",
}


@lru_cache(maxsize=1)
def _list_functions() -> dict[int, tuple[str, str]]:
    """Return the module and name of each public operator, preferring its own __name__."""
    table: dict[int, tuple[str, str]] = {}
    for space in _NAMESPACES:
        namespace = vars(importlib.import_module(space))
        for name in sorted(namespace):
            function = namespace[name]
            if not isinstance(function, FunctionType) \
                    or not function.__module__.startswith("flambeau.ops"):
                continue
            if id(function) not in table or (space == "flambeau" and name == function.__name__):
                table[id(function)] = "torch" + space[len("flambeau") :], name
    return table


def find_function_name(value: Any) -> tuple[str, str] | None:
    """Return PyTorch's module and name of a public operator, or None."""
    return _list_functions().get(id(value)) if isinstance(value, FunctionType) else None


def resolve(module: str, name: str) -> Any:
    """Return the object of `module` and `name`. Imports modules: for trusted files only.

    Raises AttributeError if flambeau has no such object.
    """
    if module != "torch" and not module.startswith("torch."):
        value: Any = sys.modules.get(module) or importlib.import_module(module)
    else:
        module, name = _map_operator(module, name)
        value = find_special(f"{module}.{name}")
        if value is not None:
            return value
        value = _find_closest_module(module, name)
    for attribute in name.split("."):
        value = getattr(value, attribute)
    return value


def _map_operator(module: str, name: str) -> tuple[str, str]:
    """Map an operator of PyTorch's inner modules: torch._C._fft.fft_rfft to torch.fft's rfft."""
    for space, inner in _NAMESPACES.items():
        if module == inner != "torch":
            module = "torch" + space[len("flambeau") :]
            return module, name.removeprefix(module.rpartition(".")[2] + "_")
    return module, name


def _find_closest_module(module: str, name: str) -> Any:
    """Return flambeau's module for a PyTorch module, or the nearest parent that has `name`."""
    first = name.partition(".")[0]
    components = ["flambeau", *module.split(".")[1:]]
    for end in range(len(components), 0, -1):
        try:
            candidate = importlib.import_module(".".join(components[:end]))
        except ModuleNotFoundError:
            continue
        if hasattr(candidate, first):
            return candidate
    raise AttributeError(f"flambeau does not have {module}.{name} yet, which this file needs")
