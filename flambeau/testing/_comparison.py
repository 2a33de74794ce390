"""assert_close: assert that tensors, numbers, or containers of them are equal up to rounding."""

from __future__ import annotations

import cmath
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .. import ops
from ..native.foundation.user_frames import warn
from ..tensor import Tensor, dtype
from ..tensor import dtypes as types
from ..tensor.layout import (
    jagged, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided,
)
from ..tensor.promotion import promote_types

_TOLERANCES = {
    types.float16: (1e-3, 1e-5), types.bfloat16: (1.6e-2, 1e-5), types.float32: (1.3e-6, 1e-5),
    types.float64: (1e-7, 1e-7), types.complex32: (1e-3, 1e-5), types.complex64: (1.3e-6, 1e-5),
    types.complex128: (1e-7, 1e-7),
}
NUMBER_DTYPES = {int: types.int64, float: types.float64, complex: types.complex128}
_WIDE_UNSIGNED = (types.uint16, types.uint32, types.uint64)
# By compressed layout: its name, and the methods that return its indices.
_COMPRESSED = {
    sparse_csr: ("CSR", "crow_indices", "col_indices"),
    sparse_csc: ("CSC", "ccol_indices", "row_indices"),
    sparse_bsr: ("BSR", "crow_indices", "col_indices"),
    sparse_bsc: ("BSC", "ccol_indices", "row_indices"),
}


class Rules(NamedTuple):
    """What counts as equal."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    allow_subclasses: bool
    checks: tuple[str, ...]  # attributes that must also be equal
    msg: str | Callable[[str], str] | None


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two leaves to compare, and their path in the containers."""

    actual: Any
    expected: Any
    rules: Rules
    place: str

    def fail(self, text: str) -> NoReturn:
        _fail(text, self.rules, self.place)

    def compare(self) -> None:
        """Raise AssertionError unless the two are close."""
        actual, expected = self.actual, self.expected
        if actual is None or expected is None:
            if actual is not expected:
                self.fail(f"None mismatch: {actual} is not {expected}")
        elif isinstance(actual, bool):
            if actual is not expected:
                self.fail(f"Booleans mismatch: {actual} is not {expected}")
        elif isinstance(actual, Tensor):
            _compare_tensors(self, actual, expected)
        else:
            _compare_numbers(self)


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Takes tensors, NumPy arrays, numbers, None, and sequences and mappings of them. The default
    tolerances depend on the dtype. Raises TypeError for values that cannot be compared, such as an
    array and a tensor.

    >>> torch.testing.assert_close(torch.tensor([1.]), torch.tensor([1.0000001]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                         f"{'atol' if atol is None else 'rtol'}.")
    enabled = {"device": check_device, "dtype": check_dtype, "layout": check_layout,
               "stride()": check_stride}
    checks = tuple(name for name, on in enabled.items() if on)
    rules = Rules(rtol, atol, equal_nan, allow_subclasses, checks, msg)
    for pair in list(_pair_leaves(actual, expected, rules, "")):
        pair.compare()


def _pair_leaves(actual: Any, expected: Any, rules: Rules, place: str) -> Iterator[_Pair]:
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            _fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", rules,
                  place)
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            yield from _pair_leaves(a, b, rules, f"{place}[{i}]")
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        keys, others = set(actual), set(expected)
        if keys != others:
            _fail("The keys of the mappings do not match:\n"
                  f"Missing keys in the actual mapping: {sorted(others - keys)}\n"
                  f"Additional keys in the actual mapping: {sorted(keys - others)}", rules, place)
        order: Any = keys
        with contextlib.suppress(TypeError):
            order = sorted(keys)
        for key in order:
            yield from _pair_leaves(actual[key], expected[key], rules, f"{place}[{key!r}]")
    else:
        yield _pair(actual, expected, rules, place)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _pair(actual: Any, expected: Any, rules: Rules, place: str) -> _Pair:
    """Convert both to None, bools, numbers or tensors; TypeError if their kinds differ."""
    if actual is None or expected is None:
        return _Pair(actual, expected, rules, place)
    for kinds in ((bool, np.bool_), (*NUMBER_DTYPES, np.number)):
        if isinstance(actual, kinds) and isinstance(expected, kinds):
            a, b = (x.item() if isinstance(x, np.generic) else x for x in (actual, expected))
            return _Pair(a, b, rules, place)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if related and (rules.allow_subclasses or type(actual) is type(expected)):
        with contextlib.suppress(Exception):
            a, b = (x if isinstance(x, Tensor) else ops.as_tensor(x) for x in (actual, expected))
            return _Pair(a, b, rules, place)
    raise TypeError("No comparison pair was able to handle inputs of type "
                    f"{type(actual)} and {type(expected)}." + _locate(place))


def _locate(place: str) -> str:
    return f"\n\nThe failure occurred for item {place}" if place else ""


def _fail(text: str, rules: Rules, place: str) -> NoReturn:
    text += _locate(place)
    if callable(rules.msg):
        text = rules.msg(text)
    elif rules.msg is not None:
        text = rules.msg
    raise AssertionError(text)


def choose_tolerances(kinds: Sequence[dtype], rules: Rules) -> tuple[float, float]:
    """Return the tolerances asked for, or the largest of the dtypes'."""
    if rules.rtol is not None and rules.atol is not None:
        return rules.rtol, rules.atol
    exact = (0.0, 0.0)
    result = [_TOLERANCES[types.float32] if isinstance(kind, types.QuantizedDtype)
              else _TOLERANCES.get(kind, exact) for kind in kinds]
    return max(r for r, _ in result), max(a for _, a in result)


def _describe(
    title: str, extra: str, absolute: tuple[float, Any], relative: tuple[float, Any],
    tolerances: tuple[float, float],
) -> str:
    """Format the message: what differs, by how much, where, and how much is allowed."""
    rtol, atol = tolerances
    is_exact = rtol == 0 and atol == 0
    lines = [f"{title} are not {'equal' if is_exact else 'close'}!", "", extra]
    for kind, (difference, at), allowed in (("absolute", absolute, atol),
                                            ("relative", relative, rtol)):
        text = f"{kind.title()} difference: {difference}" if at is None \
            else f"Greatest {kind} difference: {difference} at index {at}"
        lines.append(text if is_exact else f"{text} (up to {allowed} allowed)")
    return "\n".join(lines)


def describe_scalars(
    actual: Any, expected: Any, tolerances: tuple[float, float], title: str = "Scalars"
) -> str:
    """Say that two numbers differ, and by how much."""
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    return _describe(title, f"Expected {expected} but got {actual}.", (absolute, None),
                     (relative, None), tolerances)


def _compare_numbers(pair: _Pair) -> None:
    actual, expected = pair.actual, pair.expected
    if type(actual) is not type(expected) and "dtype" in pair.rules.checks:
        pair.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    kinds = [NUMBER_DTYPES[type(number)] for number in (actual, expected)]
    rtol, atol = choose_tolerances(kinds, pair.rules)
    if actual == expected:
        return
    if pair.rules.equal_nan and cmath.isnan(actual) and cmath.isnan(expected):
        return
    difference = abs(actual - expected)
    if not (cmath.isfinite(difference) and difference <= atol + rtol * abs(expected)):
        pair.fail(describe_scalars(actual, expected, (rtol, atol)))


def _compare_tensors(pair: _Pair, actual: Tensor, expected: Tensor) -> None:
    compare_attributes(pair, actual, expected)
    if "meta" in (actual.device.type, expected.device.type):
        return
    tolerances = choose_tolerances([actual.dtype, expected.dtype], pair.rules)
    actual, expected = equalize_attributes(actual, expected)
    compare_values(pair, actual.detach(), expected.detach(), tolerances)


def equalize_attributes(actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in a common dtype and layout."""
    if actual.dtype != expected.dtype:
        common = promote_types(*(types.int64 if kind in _WIDE_UNSIGNED else kind
                                 for kind in (actual.dtype, expected.dtype)))
        actual, expected = actual.to(common), expected.to(common)
    if actual.layout != expected.layout:
        actual, expected = actual.to_dense(), expected.to_dense()
    return actual, expected


def compare_attributes(pair: Any, actual: Tensor, expected: Tensor) -> None:
    """Fail unless shape, dtype and the other attributes that `pair.rules` names are equal."""
    checks = pair.rules.checks
    names = ["shape", "is_quantized"]
    if actual.is_quantized and expected.is_quantized:
        names.append("qscheme()")
    if actual.layout != expected.layout:
        names += ["layout"] if "layout" in checks else []
    elif actual.layout is strided and "stride()" in checks:
        names.append("stride()")
    names += [name for name in ("device", "dtype") if name in checks]
    for name in names:
        a, b = (getattr(x, name.removesuffix("()")) for x in (actual, expected))
        a, b = (a(), b()) if name.endswith("()") else (a, b)
        if a != b:
            pair.fail(f"The values for attribute '{name}' do not match: {a} != {b}.")


def compare_values(
    pair: Any, actual: Tensor, expected: Tensor, tolerances: tuple[float, float]
) -> None:
    """Compare the contents of tensors of one shape, dtype and layout."""
    layout, exact = actual.layout, (0.0, 0.0)
    if actual.is_quantized:
        _compare_elements(pair, actual.dequantize(), expected.dequantize(), tolerances,
                          "Quantized {}")
    elif layout is sparse_coo:
        if actual.sparse_dim() != expected.sparse_dim():
            pair.fail("The number of sparse dimensions in sparse COO tensors does not match: "
                      f"{actual.sparse_dim()} != {expected.sparse_dim()}")
        _compare_counts(pair, actual, expected, "COO")
        _compare_elements(pair, actual._indices(), expected._indices(), exact, "Sparse COO indices")
        _compare_elements(pair, actual._values(), expected._values(), tolerances,
                          "Sparse COO values")
    elif layout in _COMPRESSED:
        name, *indices = _COMPRESSED[layout]
        _compare_counts(pair, actual, expected, name)
        for method in indices:
            a, b = (getattr(x, method)().to(types.int64) for x in (actual, expected))
            _compare_elements(pair, a, b, exact, f"Sparse {name} {method}")
        _compare_elements(pair, actual.values(), expected.values(), tolerances,
                          f"Sparse {name} values")
    elif layout is jagged:
        _compare_elements(pair, actual.values(), expected.values(), tolerances)
    else:
        is_byte = actual.dtype.is_floating_point and actual.dtype.itemsize == 1
        if is_byte and tolerances != exact:
            raise AssertionError(
                f"Rtol={tolerances[0]} and atol={tolerances[1]} are not supported for bitwise "
                "comparison of low dimensional floats. Please use rtol=0.0 and atol=0.0.")
        _compare_elements(pair, actual, expected, tolerances)


def _compare_counts(pair: Any, actual: Tensor, expected: Tensor, name: str) -> None:
    if actual._nnz() != expected._nnz():
        pair.fail(f"The number of specified values in sparse {name} tensors does not match: "
                  f"{actual._nnz()} != {expected._nnz()}")


def _compare_elements(
    pair: Any, actual: Tensor, expected: Tensor, tolerances: tuple[float, float],
    title: str = "{}",
) -> None:
    rtol, atol = tolerances
    close = ops.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=pair.rules.equal_nan)
    if bool(close.all()):
        return
    kind = "Tensor-likes" if actual.shape else "Scalars"
    title = title.format(kind.lower() if title.startswith("Quantized") else kind)
    if actual.shape:
        pair.fail(_describe_tensors(actual, expected, close, tolerances, title))
    pair.fail(describe_scalars(actual.item(), expected.item(), tolerances, title))


def _describe_tensors(
    actual: Tensor, expected: Tensor, close: Tensor, tolerances: tuple[float, float], title: str
) -> str:
    """Describe how many elements differ, and the largest differences."""
    total = close.numel()
    count = total - int(close.sum())
    extra = f"Mismatched elements: {count} / {total} ({count / total:.1%})"
    if actual.dtype.is_floating_point and actual.dtype.itemsize == 1:
        first = tuple(ops.nonzero(~close)[0].tolist())
        return (f"{title} are not 'equal'!\n\n{extra}\n"
                f"The first mismatched element is at index {first}.")
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        actual, expected = actual.to(types.int64), expected.to(types.int64)
    absolute = (actual - expected).abs()
    relative = absolute / expected.abs()
    greatest = []
    for differences in (absolute, relative):
        value, at = differences.masked_fill(close, 0).flatten().max(0)
        index = np.unravel_index(at.item(), tuple(close.shape))
        greatest.append((value.item(), tuple(map(int, index))))
    return _describe(title, extra, greatest[0], greatest[1], tolerances)


def __getattr__(name: str) -> Any:
    """Find the classes of pairs here too, where PyTorch has them."""
    pairs = import_module(f"{__package__}.pairs")
    if name in pairs.__all__:
        return getattr(pairs, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = True, msg: str = "",
) -> None:
    """The former name of `assert_close`; does not compare dtypes.

    >>> torch.testing.assert_allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    """
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12; use "
        "`torch.testing.assert_close()`",
        FutureWarning,
    )
    assert_close(ops.as_tensor(actual), ops.as_tensor(expected), rtol=rtol, atol=atol,
                 equal_nan=equal_nan, check_dtype=False, msg=msg or None)
