"""Random integers, permutations and multinomial draws, bit-identical to PyTorch's CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.foundation.allocation import allocate
from ...native.foundation.user_frames import warn
from ..narrow_dtypes import COMPLEX32
from .distributions import (
    BFLOAT16, FLOATS, LARGEST, NAMES, WIDE_UNSIGNED, combine_pairs, fill_exponential, fill_words,
    require, unit64,
)
from .generator import Generator, default_generator
from .native import make_converter, shuffle

# Bits of precision, the implicit one included.
_DIGITS = {
    np.dtype(np.float16): 11, BFLOAT16: 8, np.dtype(np.float32): 24, np.dtype(np.float64): 53
}
_INT64, _LONG = np.iinfo(np.int64), np.dtype(np.int64)
_WIDE_RANGE = 1 << 28  # from this span on, each integer uses two words
_LARGE_PERMUTATION = (1 << 32) // 20  # from this length on, randperm draws 64 bits per step
_VECTOR_PERMUTATION = 200  # from this length on, array operations beat a plain loop
_MOST_CATEGORIES = 1 << 24


def fill_random(
    array: np.ndarray,
    generator: Generator | None = None,
    low: int = 0,
    high: int | None = None,
    *,
    whole: bool = False,
) -> np.ndarray:
    """Fill with integers of [low, high): `random_(low, high)` and `randint`. Without `high`, up to
    the dtype's largest. With `whole`, `random_()`: [0, largest], for floats [0, 2**digits]."""
    dtype = array.dtype
    if whole:
        return _fill_whole(array, generator)
    if high is None and low == _INT64.min:
        return _fill_all_64_bits(array, generator)
    if dtype.kind == "c" or dtype is COMPLEX32 or (dtype.itemsize == 1 and dtype.kind == "V"):
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types")
    if high is not None and low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    first, last = _shrink_to_representable(dtype, low, high)
    if dtype is not _LONG or first < _INT64.min or last > _INT64.max:
        _check_bounds(dtype, first, last)
    low = first
    span = (last - low + 1) % (1 << 64)
    return _fill_span(array, generator, low, span)


def _shrink_to_representable(dtype: np.dtype, low: int, high: int | None) -> tuple[int, int]:
    """Return inclusive bounds moved inwards to numbers that the dtype represents."""
    if dtype not in FLOATS:
        if high is None:
            return low, 1 if dtype.kind == "b" else min(np.iinfo(dtype).max, _INT64.max)
        return low, high - 1
    digits = _DIGITS[dtype]
    after = _round_number(low + 1, dtype)
    if after < low:
        low = after + (1 << (abs(low + 1).bit_length() - digits))
    if high is None:
        if low >= 1 << digits:
            raise RuntimeError(
                f"random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' "
                f"casted to dtype, but got from={low} > to_inc={1 << digits} ({dtype.name})"
            )
        return low, 1 << digits
    before = _round_number(high - 1, dtype)
    if before >= high:
        high = before - (1 << (abs(high - 1).bit_length() - digits))
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, "
            f"but got from={low} >= to={high} ({dtype.name})"
        )
    return low, high - 1


def _round_number(number: int, dtype: np.dtype) -> int:
    value = float(np.float64(number) if dtype.itemsize == 8 else np.float32(number).astype(dtype))
    return int(value) if abs(value) < 2.0**63 else _INT64.min


# C++ names of the dtypes, for error messages.
_CPP_NAMES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short",
    "int32": "int", "int64": "long", "uint16": "uint16_t", "uint32": "uint32_t",
    "uint64": "uint64_t", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float",
    "float64": "double",
}


def _check_bounds(dtype: np.dtype, low: int, last: int) -> None:
    if dtype in FLOATS:
        limit: float = LARGEST[dtype]
        smallest: float = -limit
    elif dtype.kind == "b":
        smallest, limit = 0, 1
    else:
        smallest, limit = np.iinfo(dtype).min, min(np.iinfo(dtype).max, _INT64.max)
    for bound, label in ((low, "from"), (last, "to - 1")):
        if not smallest <= bound <= limit:
            raise RuntimeError(f"{label} is out of bounds for {_CPP_NAMES[dtype.name]}")
        if dtype in FLOATS and abs(bound) > 1 << _DIGITS[dtype]:
            warn(
                f"{label} is out of bounds [-(2^{_DIGITS[dtype]}), 2^{_DIGITS[dtype]}]. Due to "
                f"precision limitations {dtype.name} can support discrete uniform distribution "
                "only within this range.",
                UserWarning,
            )


def _fill_span(array: np.ndarray, generator: Generator | None, low: int, span: int) -> np.ndarray:
    dtype = array.dtype
    base = np.array(low, _LONG)
    if span >= _WIDE_RANGE:
        divisor = np.uint64(span)
        return fill_words(
            array, generator, 2,
            lambda words: _as_dtype((combine_pairs(words) % divisor).view(np.int64) + base, dtype),
        )
    short = np.array(span, np.uint32)

    def compute(words: np.ndarray) -> np.ndarray:
        # NumPy vectorizes division by a scalar, but not the remainder.
        rest = (words - words // short * short).view(np.int32)
        return _as_dtype(np.add(rest, base, dtype=np.int64) if low else rest, dtype)

    convert = make_converter("integers", dtype, array.size, short, base)
    return fill_words(array, generator, 1, compute, convert)


def _as_dtype(integers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Cast integers like C: to bool by "not 0", to 16-bit floats via float32 (returned as that)."""
    if dtype.itemsize == 2 and dtype in FLOATS:
        return integers.astype(np.float32)
    return integers.astype(dtype, copy=False)


def _fill_whole(array: np.ndarray, generator: Generator | None) -> np.ndarray:
    dtype = array.dtype
    require(dtype, (dtype.kind in "biuf" and dtype not in WIDE_UNSIGNED) or dtype == BFLOAT16,
            "random_kernel_cpu")
    if dtype in FLOATS:
        span = (1 << _DIGITS[dtype]) + 1
    else:
        span = 2 if dtype.kind == "b" else np.iinfo(dtype).max + 1
    if dtype.itemsize == 8:
        modulus = np.uint64(span)
        return fill_words(array, generator, 2,
                          lambda words: (combine_pairs(words) % modulus).view(np.int64))
    short = np.uint32(span)
    return fill_words(array, generator, 1, lambda words: _as_dtype(words % short, dtype))


def _fill_all_64_bits(array: np.ndarray, generator: Generator | None) -> np.ndarray:
    dtype = array.dtype
    if dtype.kind == "c" or dtype == np.float16 or dtype in WIDE_UNSIGNED or dtype.kind == "b":
        require(dtype, False, "random_full_64_bits_range_kernel_cpu")
    if dtype.kind in "iu" and dtype != np.int64:
        raise RuntimeError(
            "random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16, "
            f"not {NAMES[dtype.name]}"
        )
    return fill_words(
        array, generator, 2, lambda words: _as_dtype(combine_pairs(words).view(np.int64), dtype)
    )


def randperm(
    n: int, dtype: np.dtype | type = np.int64, generator: Generator | None = None
) -> np.ndarray:
    """Return a random permutation of 0 .. n - 1."""
    dtype = np.dtype(dtype)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    require(dtype, (dtype.kind in "iuf" and dtype not in WIDE_UNSIGNED) or dtype == BFLOAT16,
            "randperm")
    if dtype.kind in "iu" and n - 1 > np.iinfo(dtype).max:
        raise RuntimeError(f"value cannot be converted to type {dtype.name}_t without overflow")
    limits = {"float16": "2049 for Half", "float32": "2^24+1 for Float",
              "float64": "2^53+1 for Double"}
    if dtype.name in limits and n > (1 << _DIGITS[dtype]) + 1:
        raise RuntimeError(f"n cannot be greater than {limits[dtype.name]} type.")
    source = default_generator if generator is None else generator
    if n >= _LARGE_PERMUTATION:
        return _shuffle_inside_out(n, source).astype(dtype, copy=False)
    if n < 2:
        return np.zeros(n, dtype)
    words = source.words(n - 1)
    order = shuffle(words)
    if order is None:
        steps = np.arange(n - 1, dtype=np.int64)
        partners = (words % np.arange(n, 1, -1, dtype=np.uint32)) + steps
        order = _shuffle_by_loop(partners) if n < _VECTOR_PERMUTATION else _shuffle(partners)
    return _as_dtype(order, dtype).astype(dtype, copy=False)


def _shuffle_by_loop(partners: np.ndarray) -> np.ndarray:
    """Return 0 .. n - 1 after swapping places i and partners[i] for i = 0, 1, ..., n - 2."""
    order = list(range(partners.size + 1))
    for here, partner in enumerate(partners.tolist()):
        order[here], order[partner] = order[partner], order[here]
    return np.array(order, np.int64)


def _shuffle(partners: np.ndarray) -> np.ndarray:
    """Same as `_shuffle_by_loop`, with array operations.

    Step i moves the value at its partner to place i. The last earlier step with that partner put
    the value there from its own place, and so on back; pointer doubling follows these chains.
    """
    n = partners.size + 1
    steps = np.arange(n - 1, dtype=np.int64)
    bits = n.bit_length()
    keys = (partners << bits) | steps
    keys.sort()
    step, partner = keys & ((1 << bits) - 1), keys >> bits
    is_repeated = partner[1:] == partner[:-1]
    previous = np.full(n - 1, -1, np.int64)  # the last earlier step with the same partner
    previous[step[1:][is_repeated]] = step[:-1][is_repeated]
    origin = np.arange(n, dtype=np.int64)  # where the value at place i before step i came from
    moved = step < partner
    origin[partner[moved]] = step[moved]  # steps ascend within a partner: the last one wins
    while True:
        further = origin[origin]
        if np.array_equal(further, origin):
            break
        origin = further
    order = np.empty(n, np.int64)
    order[:-1] = np.where(previous >= 0, origin[previous], partners)
    order[-1] = origin[-1]
    return order


def _shuffle_inside_out(n: int, source: Generator) -> np.ndarray:
    """Shuffle by PyTorch's other algorithm, for lengths too large for 32-bit remainders."""
    order = allocate(n, np.dtype(np.int64))
    step = 1 << 20
    for start in range(0, n, step):
        stop = min(start + step, n)
        bounds = np.arange(start + 1, stop + 1, dtype=np.uint64)
        partners = combine_pairs(source.words(2 * (stop - start))) % bounds
        for here, partner in enumerate(partners.tolist(), start):
            order[here] = order[partner]
            order[partner] = here
    return order


def multinomial(
    weights: np.ndarray, count: int, replacement: bool = False, generator: Generator | None = None
) -> np.ndarray:
    """Draw `count` int64 indices per row of `weights`, (categories,) or (rows, categories)."""
    check_weights(weights, count, replacement)
    if not are_weights(weights):
        raise explain_weights(weights, count, replacement)
    shape = (*weights.shape[:-1], count)
    if weights.shape[0] == 0:
        return np.empty(shape, np.int64)
    if replacement and count > 1:
        return _draw_with_replacement(np.atleast_2d(weights), count, generator).reshape(shape)
    # The argmax of p / q with exponential q follows the weights' distribution.
    q = fill_exponential(np.empty_like(weights, subok=False), generator)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = weights / q
    if count == 1:
        return np.expand_dims(np.argmax(scores, axis=-1), -1)
    best: np.ndarray = np.argsort(-scores.astype(np.float64), axis=-1, kind="stable")
    return best[..., :count]


def check_weights(weights: np.ndarray, count: int, replacement: bool) -> None:
    """Raise RuntimeError for weights or a count that no values make valid."""
    if not 1 <= weights.ndim <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if weights.dtype not in FLOATS:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: "
            f"{NAMES[weights.dtype.name]}"
        )
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    categories = weights.shape[-1]
    if not replacement and count > categories:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if categories > _MOST_CATEGORIES:
        raise RuntimeError("number of categories cannot exceed 2^24")


def are_weights(weights: np.ndarray) -> Any:
    """Whether weights are finite and not negative, with a positive one in each row."""
    if not weights.size:
        return not weights.shape[0]
    return np.all((weights >= 0) & (weights < np.inf)) & np.all(np.max(weights, -1) > 0)


def explain_weights(weights: np.ndarray, count: int, replacement: bool) -> RuntimeError:
    """Return the error for weights whose values are not valid."""
    if weights.size and not (weights.max() < np.inf and weights.min() >= 0):
        if not replacement or count == 1:
            return RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        first = weights[~((weights >= 0) & np.isfinite(weights))].flat[0]
        fault = "= infinity or NaN" if first > 0 else "< 0"
        return RuntimeError(
            f"invalid multinomial distribution (encountering probability entry {fault})")
    return RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _draw_with_replacement(rows: np.ndarray, count: int, generator: Generator | None) -> np.ndarray:
    # Compute sums and quotients in the weights' precision, for 16-bit weights in float32.
    precision = np.float64 if rows.dtype == np.float64 else np.float32
    cumulative: np.ndarray = np.cumsum(rows, axis=-1, dtype=precision)
    cumulative = cumulative / cumulative[:, -1:]
    cumulative[:, -1] = 1
    source = default_generator if generator is None else generator
    drawn = unit64(source.words(2 * count * len(rows))).reshape(len(rows), count)
    exact = cumulative.astype(np.float64)
    return np.stack([np.searchsorted(row, u, "left") for row, u in zip(exact, drawn, strict=True)])
