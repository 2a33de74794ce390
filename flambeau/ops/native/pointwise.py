"""Pointwise kernels for large arrays, traced from the operators' bodies.

`try_kernel` returns None until a kernel is compiled and for unsupported calls; NumPy is used then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...native.runtime.background_jit import KernelPolicy, request_kernel
from ...native.runtime.fast_call import call_kernel
from ...native.target.eager_costs import (
    CALLS_BEFORE_COMPILING, CALLS_BEFORE_USE, MAX_NUMPY_CHEAP_ELEMENTS, MAX_NUMPY_COSTLY_ELEMENTS,
    MAX_NUMPY_POINTWISE_ELEMENTS, MAX_POINTWISE_KERNELS,
)
from ...tensor.dtypes import FLOAT32, FLOAT64, FLOATS, bfloat16, float16
from .lifted_numbers import Lifted, admits_constants, lift_call, lift_closure
from .pointwise_walk import Walk, plan_walk
from .route import native_route

Array = np.ndarray

_CHEAP = frozenset((
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.sqrt, np.floor, np.ceil, np.trunc,
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.logical_not,
    np.absolute, np.maximum, np.minimum,
))
_SLOW = frozenset((np.power, np.fmod, np.remainder, np.floor_divide, np.hypot))
_EXACT = frozenset((
    np.add, np.subtract, np.multiply, np.negative, np.maximum, np.minimum, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor, np.equal, np.not_equal, np.less, np.less_equal, np.greater,
    np.greater_equal, np.absolute, np.logical_not,
))
_INTEGERS = frozenset(np.dtype(n) for n in ("int32", "int64", "uint8"))
_BOOL = np.dtype(bool)
_HALVES = frozenset((float16.numpy, bfloat16.numpy))
_ndarray = np.ndarray

_CASTS = frozenset(np.dtype(n) for n in (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64",
))
_brief: set[Any] = set()  # bodies of one or two steps
_ready: dict[tuple, Any] = {}  # by body and layouts: the number of calls, later the kernel
# Kernels for contiguous arrays of one shape and dtype, keyed by body, dtype and settings: (address,
# result dtype, largest size at which NumPy is as fast).
_straight: dict[tuple, tuple[int, np.dtype, int]] = {}


@native_route
def choose_min_elements(body: Any) -> int:
    """Return the number of elements up to which NumPy is as fast as the body's kernel."""
    if body in _CHEAP:
        return MAX_NUMPY_CHEAP_ELEMENTS
    quick = body in _brief or (isinstance(body, np.ufunc) and body not in _SLOW)
    return MAX_NUMPY_POINTWISE_ELEMENTS if quick else MAX_NUMPY_COSTLY_ELEMENTS


@native_route
def try_kernel(body: Any, *operands: Any) -> Array | None:
    """Return body(*operands), in the first operand's shape, for operands of one dtype, or None.

    Supports floats, and integers if the body is defined on them without division.
    """
    first = operands[0]
    if first.__class__ is not _ndarray or not KernelPolicy.allowed:
        return None
    kind, shape = first.dtype, first.shape
    plain = first.flags.c_contiguous
    for a in operands[1:]:
        plain = plain and a.__class__ is _ndarray and a.shape == shape and a.flags.c_contiguous
    key = (body, kind, len(operands)) if plain else None
    known = _straight.get(key)  # type: ignore[arg-type]  # None is no key
    if known is not None and first.size > known[2]:
        y = np.empty(shape, known[1])
        call_kernel(known[0], first.size, *operands, y, first.size)
        return y
    if kind not in FLOATS and not (kind in _INTEGERS and _is_exact(body)) \
            and not (kind is _BOOL and (body is np.logical_not or not isinstance(body, np.ufunc))):
        return None
    if first.size <= choose_min_elements(body):
        return None
    result = serve(body, operands)
    if key is not None and result is not None:
        _keep_straight(key, body, operands)
    return result


def _keep_straight(key: tuple, body: Any, arrays: tuple) -> None:
    """Cache the kernel lookup for arrays like these, unless the body is a closure: those are
    created at each call, so their identity is no key."""
    known = body[0] if body.__class__ is tuple else body
    if getattr(known, "__closure__", None) is not None or len(_straight) >= MAX_POINTWISE_KERNELS:
        return
    entry = _ready.get((body, tuple([(a.dtype, "full") for a in arrays])))
    if entry.__class__ is tuple:
        _straight[key] = (*entry, choose_min_elements(known))


def _is_read_late(operand: Array, target: Array) -> bool:
    """Whether elements of an operand may be read after they have been written to the target."""
    return (operand.base is not None or target.base is not None) \
        and (operand.shape, operand.strides) != (target.shape, target.strides) \
        and np.may_share_memory(operand, target)


@native_route
def write_straight(body: Any, target: Array, *others: Array) -> bool:
    """Write body(target, *others) into the target if its kernel is compiled.

    The others have the target's dtype. One that lies as the target is the target or does not
    overlap it.
    """
    if not KernelPolicy.allowed or not target.flags.c_contiguous:
        return False
    if any(_is_read_late(a, target) for a in others):
        return False
    walk = _walk((target, *others), target.shape)
    if walk is None:
        return False
    entry = _ready.get((body, walk.layouts))
    if entry.__class__ is not tuple or entry[1] != target.dtype:
        return False
    call_kernel(entry[0], target.size, target, *others, target, *walk.sizes)
    return True


def _is_exact(body: Any) -> bool:
    """Whether a body may run on integers: listed ufuncs, and bodies composed of them."""
    return body in _EXACT or not isinstance(body, np.ufunc)


@native_route
def mix_dtypes(body: Any, operands: tuple, kind: np.dtype) -> Array | None:
    """Run the body on arrays and numbers of several dtypes, cast to `kind` first; may be None."""
    first = operands[0]
    if first.__class__ is not _ndarray or first.size <= choose_min_elements(body) \
            or not KernelPolicy.allowed:
        return None
    if kind not in FLOATS and not (kind in _INTEGERS and _is_exact(body)):
        return None
    if any(a.__class__ is not _ndarray or a.dtype not in _CASTS for a in operands):
        return None

    def formula(*values: Any) -> Any:
        return body(*[v.astype(kind) for v in values])

    return serve(("mixed", body, kind), operands, formula)


_SETTINGS = frozenset((float, int, bool, str, type(None)))


@native_route
def try_kernel_with(
    body: Any, operands: tuple, plain: tuple, named: dict[str, Any], target: Array | None = None
) -> Array | None:
    """Return body(*operands, *plain, **named) on large arrays of one float dtype, or None.

    `operands`: arrays, the first of which has the result's shape, and settings in positions that
    may hold an array. `plain` and `named` are settings. `target`: the array for the result. Half
    precision is computed in float32 and may be mixed with float32 numbers.
    """
    first = operands[0]
    if first.__class__ is not _ndarray or not KernelPolicy.allowed:
        return None
    kind, shape, size = first.dtype, first.shape, first.size
    settings: list[Any] = [body]
    arrays, straight = [], True
    for v in (*operands, *plain, *named.values()):
        cls = v.__class__
        if cls is _ndarray:
            arrays.append(v)
            settings.append(_ndarray)
            straight = straight and v.dtype is kind and v.shape == shape and v.flags.c_contiguous
        elif cls in _SETTINGS:
            settings += (v if v else repr(v), cls)  # distinguishes 0.0 from -0.0 and 1 from True
        else:
            return None
    if named:
        settings.extend(named)
    key = tuple(settings)
    result = _straight.get((kind, key)) if straight else None
    if result is not None and size > result[2]:
        y = np.empty(shape, result[1]) if target is None else target
        if y.dtype == result[1]:
            call_kernel(result[0], size, *arrays, y, size)
            return y
    if size <= (choose_min_elements(body) if kind in FLOATS and target is None
                else MAX_NUMPY_COSTLY_ELEMENTS):
        return None
    if kind not in FLOATS and kind not in _HALVES and not (kind in _INTEGERS and _is_exact(body)):
        return None
    if any(a.dtype != kind and (a.ndim or kind in FLOATS) for a in arrays):
        return None
    if target is not None and any(_is_read_late(a, target) for a in arrays):
        return None
    return _serve_with(body, operands, plain, named, key, tuple(arrays), target, straight)


def _serve_with(
    body: Any, operands: tuple, plain: tuple, named: dict[str, Any], key: tuple, arrays: tuple,
    target: Array | None, straight: bool,
) -> Array | None:
    """`serve` for a body with settings, cached under `key`; also in `_straight` if possible."""
    lift = partial(lift_call, body, operands, plain, named)

    def formula(*values: Any) -> Any:
        lifted = lift()
        return lifted.bind(lifted.numbers)(*values)

    if len(arrays) == len(operands) and not plain and not named:
        y, known = serve(body, arrays, target=target), body
    else:
        y, known = serve(key, arrays, formula, target=target, lift=lift), key
    if straight and y is not None:
        _keep_straight((arrays[0].dtype, key), known, arrays)
    return y


@native_route
@lru_cache(maxsize=256)
def swap_operands(body: Any) -> Callable:
    """Return a body of two operands with the operands swapped."""
    return lambda a, b: body(b, a)


@native_route
def try_cast_kernel(x: Array, kind: np.dtype) -> Array | None:
    """Cast a large array to another dtype, or return None."""
    if x.__class__ is not _ndarray or not KernelPolicy.allowed:
        return None
    if x.dtype not in _CASTS or kind not in _CASTS:
        return None
    truncates = x.dtype.kind in "fV" and kind.kind in "iu"  # NumPy needs two steps
    slow = truncates or kind in _HALVES or x.dtype in _HALVES
    if x.size <= (MAX_NUMPY_COSTLY_ELEMENTS if slow else MAX_NUMPY_CHEAP_ELEMENTS):
        return None
    if x.dtype is FLOAT64 and kind.kind == "u":  # kernels convert via int32, PyTorch does not
        return None
    return serve(("cast", kind), (x,), lambda v: v, kind)


@native_route
def serve(
    body: Any, operands: tuple, formula: Callable | None = None, result: np.dtype | None = None,
    target: Array | None = None, lift: Callable[[], Lifted | None] | None = None,
) -> Array | None:
    """Run a body's kernel on arrays of any supported dtypes; `formula` works on kernel Values.

    `result`: the result's dtype, part of the cache key. `target`: a contiguous array in the first
    operand's shape for the result; operands are `target` itself or do not overlap it. `lift`: for
    the body's numbers, if they are not in its closure.
    """
    shape = operands[0].shape
    large = operands[0].size > MAX_NUMPY_POINTWISE_ELEMENTS
    walk = _walk(operands, shape)
    if large and target is None and walk is None:
        operands = _put_all_in_order(operands)
        walk = _walk(operands, shape)
    if walk is None or target is not None and not walk.in_order:
        return None
    key = (make_settings_key(body), walk.layouts)
    try:
        known = _ready.get(key)
    except TypeError:  # a setting that is not a plain number
        return None
    if known is None:
        lifted = lift_closure(body) if lift is None else lift()
        if lifted is not None and lifted.numbers and not admits_constants(lifted):
            return _serve_lifted(lifted, operands, result, target)
    if known.__class__ is not tuple:
        if not large and not _is_called_often(key, known):
            return None
        known = _request(key, known, body if formula is None else formula, result)
        if known is not None and not large and _is_brief(key):
            _brief.add(body[0] if body.__class__ is tuple else body)
            return None
    if known is None:
        return None
    address, kind = known
    if target is None:
        full = None if walk.full is None or walk.in_order else operands[walk.full]
        y = np.empty(shape, kind) if full is None else np.empty_like(full, kind)
    elif kind == target.dtype:
        y = target
    else:
        return None
    call_kernel(address, y.size, *operands, y, *walk.sizes)
    return y


def _serve_lifted(
    lifted: Lifted, operands: tuple, result: np.dtype | None, target: Array | None
) -> Array | None:
    """`serve` with the body's numbers as operands, for floats."""
    kind, count = operands[0].dtype, len(operands)
    if kind not in FLOATS and kind not in _HALVES:
        return None
    inside = FLOAT32 if kind in _HALVES else kind
    numbers = [np.array(v, inside) for v in lifted.numbers]

    def formula(*values: Any) -> Any:
        from ...native.loop_ir.expression_builder import VaryingNumber

        varying = [VaryingNumber(v.expression) for v in values[count:]]
        try:
            return lifted.bind(varying)(*values[:count])
        except (TypeError, AttributeError, ValueError) as error:  # it wants a number
            raise NotImplementedError(f"a varying number: {error}") from error

    return serve(("lifted", lifted.pattern), (*operands, *numbers), formula, result, target)


def _walk(operands: tuple, shape: tuple[int, ...]) -> Walk | None:
    for a in operands:
        if a.__class__ is not _ndarray:
            return None
    return plan_walk(shape, tuple([(a.shape, a.strides, a.dtype) for a in operands]))


@native_route
def make_settings_key(body: Any) -> Any:
    """Return a body's cache key. Closures are keyed by their code and captured values."""
    cells = getattr(body, "__closure__", None)
    if cells is None:
        return body
    return (body.__code__, tuple([make_settings_key(c.cell_contents) for c in cells]))


def _is_called_often(key: tuple, calls: int | None) -> bool:
    """Count a call on medium-sized arrays; return whether a kernel pays off by now."""
    calls = calls or 0
    if calls < CALLS_BEFORE_USE and (calls or len(_ready) < MAX_POINTWISE_KERNELS) \
            and KernelPolicy.counts:
        _ready[key] = calls + 1
    return calls in (CALLS_BEFORE_COMPILING, CALLS_BEFORE_USE)


def _build_nothing() -> Any:
    """Build nothing: the kernel exists already."""


def _is_brief(key: tuple) -> bool:
    """Whether a kernel does so little per element that its lookup costs as much as NumPy's work."""
    function = request_kernel(("pointwise", *key), _build_nothing)
    if function is None:
        return False
    from ...native.loop_ir.ir import (
        Apply, Scalar, get_operands, iterate_expressions, iterate_statements,
    )

    result, stack = [], [e for s in iterate_statements(function.kernel.body)
                         for e in iterate_expressions(s)]
    while stack:
        node = stack.pop()
        stack.extend(get_operands(node))
        if isinstance(node, Apply):
            result.append(node.operation)
    return len(result) <= 2 and {*result} <= {Scalar.ADD, Scalar.SUB, Scalar.MUL}


def _request(key: tuple, match: int | None, formula: Callable, result: np.dtype | None
            ) -> tuple | None:
    """Return (address, result dtype) once the kernel is compiled."""
    if match is None:  # the body has settings, which may differ at each call
        if len(_ready) >= MAX_POINTWISE_KERNELS:
            for once in [k for k, v in _ready.items() if v.__class__ is not tuple]:
                del _ready[once]
        if len(_ready) < MAX_POINTWISE_KERNELS:
            _ready[key] = 1
        return None

    def build() -> Any:
        from ...native.kernels.pointwise import pointwise
        from ...native.loop_ir.ir import Type

        kind = None if result is None else Type(result.name)
        return pointwise(formula, [(Type(d.name), layout) for d, layout in key[1]], kind)

    function = request_kernel(("pointwise", *key), build)
    if function is None:
        return None
    kind = np.dtype(function.kernel.buffers[-1].type.value)
    new = _ready[key] = (function.address, kind)
    return new


def _put_all_in_order(operands: tuple) -> tuple:
    """Copy arrays whose layout differs from the result's, and broadcast arrays with gaps."""
    from .transpose import put_in_order

    first = operands[0]
    order = sorted(range(first.ndim), key=first.strides.__getitem__, reverse=True)
    if not _is_dense(first) and order != [*range(first.ndim)]:
        return operands
    back = np.argsort(order)
    return tuple([
        a if a.__class__ is not _ndarray
        else put_in_order(a.transpose(order)).transpose(back) if a.shape == first.shape
        else a if a.flags.c_contiguous else a.copy() for a in operands
    ])


def _is_dense(x: Array) -> bool:
    """Whether an array fills its memory without gaps, in any order of axes."""
    order = sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)
    return x.transpose(order).flags.c_contiguous
