"""Compiled kernels for many random numbers: the same bits as the array code, but faster.

`native` returns None until a kernel is compiled; the array code runs in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...native.runtime.background_jit import KernelPolicy, request_kernel
from ...native.runtime.fast_call import FastCalls
from ...native.target.eager_costs import (
    MAX_PYTHON_LIBM_CALLS, MIN_DRAW_KERNEL_ELEMENTS, SMALL_DRAWS_BEFORE_COMPILING,
)

if TYPE_CHECKING:
    from ...native.loop_ir.ir import Kernel

_BLOCK, _GROUP = 624, 8  # as in native/kernels/random/
_ready: dict[tuple, int] = {}  # kernel addresses by name and dtype
_draws: dict[tuple, int] = {}  # number of small draws by name and dtype


def get_kernel(name: str, dtype: np.dtype | None = None) -> int | None:
    """Return the address of a kernel of native/kernels/random/, or None while it compiles."""
    key = (name, dtype)
    known = _ready.get(key)
    if known is not None:
        return known
    function = request_kernel(("random", *key), lambda: _build_kernel(name, dtype), exact=True)
    if function is None:
        return None
    result = _ready[key] = function.address
    return result


def _build_kernel(name: str, dtype: np.dtype | None) -> Kernel:
    from ...native.kernels.random import counts, libm, mersenne_twister, normal, rejection
    from ...native.loop_ir.ir import Type

    makers: dict[str, Callable[..., Kernel]] = {
        "twist": mersenne_twister.twist, "unit": mersenne_twister.unit,
        "uniform": mersenne_twister.uniform,
        "bernoulli": mersenne_twister.bernoulli, "integers": mersenne_twister.integers,
        "shuffle": mersenne_twister.shuffle,
        "normal": normal.normal, "normal_pairs": normal.normal_pairs, "gamma": rejection.gamma,
        "poisson": counts.poisson, "binomial": counts.binomial, **libm.FUNCTIONS,
    }
    if dtype is None:
        return makers[name]()
    if dtype.name not in {item.value for item in Type}:
        raise NotImplementedError(f"a kernel for random numbers of {dtype}")
    return makers[name](Type(dtype.name))


def twist(key: int, words: np.ndarray) -> bool:
    """Fill words with whole blocks and advance the twister's state at address `key`.

    Return False, without doing so, for few words or if the kernel isn't ready.
    """
    if words.size < MIN_DRAW_KERNEL_ELEMENTS:
        return False
    result = get_kernel("twist")
    if result is not None:
        groups, rest = divmod(words.size, _GROUP * _BLOCK)
        FastCalls.call(
            result, key, words, words[groups * _GROUP * _BLOCK :], groups, rest // _BLOCK
        )
    return result is not None


def make_converter(
    name: str, dtype: np.dtype, count: int, *numbers: np.ndarray, block: int = 1
) -> Callable[[np.ndarray, np.ndarray], None] | None:
    """Return convert(words, elements) by a kernel with parameters `numbers`, or None if not ready.

    Words and elements must be contiguous, in whole blocks of `block` elements.
    """
    known = _ready.get((name, dtype))
    if known is None and (count >= MIN_DRAW_KERNEL_ELEMENTS or _is_frequent((name, dtype))):
        known = get_kernel(name, dtype)
    if known is None:
        return None

    def convert(words: np.ndarray, elements: np.ndarray) -> None:
        FastCalls.call(known, words, *numbers, elements, elements.size // block)

    return convert


def make_sequential_drawer(
    name: str, dtype: np.dtype, count: int
) -> Callable[..., None] | None:
    """Return a kernel that draws `count` elements in sequence, or None if not ready."""
    known = _ready.get((name, dtype))
    if known is None and (count >= MAX_PYTHON_LIBM_CALLS or _is_frequent((name, dtype))):
        known = get_kernel(name, dtype)
    return None if known is None else partial(FastCalls.call, known)


def _is_frequent(key: tuple) -> bool:
    """Count a small draw; return whether there were enough to compile a kernel."""
    count = _draws[key] = _draws.get(key, 0) + 1
    return count > SMALL_DRAWS_BEFORE_COMPILING and KernelPolicy.counts


def shuffle(words: np.ndarray) -> np.ndarray | None:
    """Return 0 .. n - 1 shuffled by n - 1 words, or None if the kernel isn't ready."""
    result = get_kernel("shuffle") if words.size >= MIN_DRAW_KERNEL_ELEMENTS else None
    if result is None:
        return None
    order = np.arange(words.size + 1, dtype=np.int64)
    FastCalls.call(result, order, words, np.array(order.size), words.size)
    return order


def apply_c_function(name: str, x: np.ndarray) -> np.ndarray | None:
    """Apply the C library's function `name` to float64 numbers; None if the kernel isn't ready."""
    if x.size < MIN_DRAW_KERNEL_ELEMENTS \
            and (x.size < MAX_PYTHON_LIBM_CALLS or (name, None) not in _ready):
        return None
    result = get_kernel(name)
    if result is None:
        return None
    new = np.array(x, order="C")
    FastCalls.call(result, new, new.size)
    return new
