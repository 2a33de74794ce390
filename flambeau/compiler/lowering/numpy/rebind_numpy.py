"""Run operator bodies on symbols: the same code, with a different `np` in its globals.

NumPy's protocols dispatch most functions to symbols. They do not cover functions that create arrays
(`np.empty`, `np.zeros`) or convert to arrays (`np.asarray`). In the globals of a rebound function,
`np` is a module that replaces these with versions for symbols; the functions it calls in the
operators' files are rebound too.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ....native.loop_ir.ir import Scalar
from ....tensor.promotion import result_dtype
from ...ir import graph
from ..registry import EXPLICIT, Untraceable
from . import reductions, selection, shapes  # noqa: F401 - they register themselves
from .node_builders import type_of
from .symbolic_array import (
    SymbolArray, apply_elementwise, convert_to_node, is_symbol, make_promotion_proxy,
)

_OPERATORS = "flambeau.ops."


# ------------------------------------------------------------------------------- numpy


def _fill_function(value: Any) -> Callable[..., Any]:
    def fill(shape: Any, dtype: Any = np.float64, order: str = "C", **_: Any) -> Any:
        extents = tuple(shape) if hasattr(shape, "__len__") else (shape,)
        try:
            type = type_of(dtype)
        except Untraceable:
            return np.full(extents, value, dtype)
        return SymbolArray(graph.constant(value, type, tuple(int(n) for n in extents)))

    return fill


def _full(shape: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Any:
    if not is_symbol(fill_value):
        return np.full(shape, fill_value, dtype)
    kind = fill_value.dtype if dtype is None else dtype
    return np.broadcast_to(fill_value.astype(kind), shape)


def _as_array_function(like: Callable) -> Callable[..., Any]:
    def convert(a: Any, dtype: Any = None, *rest: Any, **options: Any) -> Any:
        if is_symbol(a):
            return a if dtype is None else a.astype(dtype, copy=False)
        if isinstance(a, (list, tuple)) and any(is_symbol(v) for v in a):
            y = np.stack([v if is_symbol(v) else np.asarray(v) for v in a])
            return y if dtype is None else y.astype(dtype)
        return like(a, dtype, *rest, **options)

    return convert


def _array(a: Any, dtype: Any = None, copy: Any = True, **options: Any) -> Any:
    if not is_symbol(a):
        return _as_array_function(np.asarray)(a, dtype) if isinstance(a, (list, tuple)) \
            else np.array(a, dtype, copy=copy, **options)
    y = a if dtype is None else a.astype(dtype, copy=False)
    return y.copy() if copy else y


class _NumPy(types.ModuleType):
    """NumPy, except for the names below."""

    ndarray = SymbolArray
    zeros, empty, ones = _fill_function(0), _fill_function(0), _fill_function(1)
    full = staticmethod(_full)
    asarray, asanyarray = _as_array_function(np.asarray), _as_array_function(np.asanyarray)
    ascontiguousarray = _as_array_function(np.ascontiguousarray)
    array = staticmethod(_array)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


for _name in ("zeros", "empty", "ones", "asarray", "asanyarray", "ascontiguousarray"):
    setattr(_NumPy, _name, staticmethod(getattr(_NumPy, _name)))
NUMPY = _NumPy("numpy")


# ------------------------------------------------------------------------------- functions


def _erf(x: Any) -> Any:
    if is_symbol(x):  # avoids SciPy, which is slow to import
        return apply_elementwise(Scalar.ERF, x)
    from scipy.special import erf

    return erf(x)


def promote_symbols(operands: Any) -> Any:
    """Return PyTorch's promoted dtype of symbols, arrays and numbers."""
    return result_dtype([make_promotion_proxy(x) for x in operands])


def _run_unblocked(body: Callable, *arrays: Any) -> Any:
    return body(*arrays)


def _choose(condition: Any, a: Any, b: Any) -> Any:
    kind = a.dtype if hasattr(a, "dtype") else b.dtype
    return np.where(condition, SymbolArray(convert_to_node(a, kind)),
                    SymbolArray(convert_to_node(b, kind)))


# Replacements for functions of the operators' files that exist only to make NumPy faster.
_REPLACEMENTS: dict[tuple[str, str], Callable] = {
    ("core.cache_blocking", "blockwise"): _run_unblocked,
    ("core.cache_blocking", "choose"): _choose,
    ("special.error_function", "erf_of"): _erf,
    ("special.error_function", "erf_block"): _erf,
}

_rebound_functions: dict[Any, Callable] = {}


def _decline(*_: Any, **__: Any) -> None:
    return None


class _ReboundGlobals(dict):
    """A module's globals, each rebound when first read."""

    def __init__(self, originals: dict[str, Any]) -> None:
        super().__init__(__builtins__=originals["__builtins__"], __name__=originals["__name__"],
                         __package__=originals.get("__package__"))
        self.originals = originals

    def __missing__(self, name: str) -> Any:
        rebound = self[name] = _rebind(self.originals[name])
        return rebound


_globals: dict[str, _ReboundGlobals] = {}


def _rebind(value: Any) -> Any:
    if value is np:
        return NUMPY
    if value is result_dtype:
        return promote_symbols
    if not isinstance(value, types.FunctionType) or not value.__module__.startswith(_OPERATORS):
        return value
    operator = getattr(value, "operator", None)
    if operator is None:
        return _decline if hasattr(value, "is_native_route") else rebind_to_symbols(value)
    body = EXPLICIT.get(operator) or rebind_to_symbols(operator.body)
    return types.SimpleNamespace(operator=types.SimpleNamespace(body=body, name=operator.name))


def rebind_to_symbols(function: Callable) -> Callable:
    """Return a copy of a function whose globals hold the NumPy for symbols."""
    code: types.CodeType = function.__code__
    key = (function.__module__.removeprefix(_OPERATORS), function.__name__)
    if key in _REPLACEMENTS:
        return _REPLACEMENTS[key]
    if function in _rebound_functions:
        return _rebound_functions[function]
    module = function.__module__
    if module not in _globals:
        _globals[module] = _ReboundGlobals(function.__globals__)
    cells = function.__closure__ and tuple(types.CellType(_rebind(c.cell_contents))
                                           for c in function.__closure__)
    rebound = types.FunctionType(code, _globals[module], function.__name__, function.__defaults__,
                                 cells)
    rebound.__kwdefaults__ = function.__kwdefaults__
    _rebound_functions[function] = rebound
    return rebound
