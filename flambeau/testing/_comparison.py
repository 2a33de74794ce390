"""assert_close: that two tensors, numbers, or containers of them are equal up to rounding."""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..native.foundation.user_frames import warn
from .. import ops
from ..tensor import Tensor, dtype
from ..tensor import dtypes as types
from ..tensor.promotion import promote_types

_TOLERANCES = {
    types.float16: (1e-3, 1e-5), types.bfloat16: (1.6e-2, 1e-5), types.float32: (1.3e-6, 1e-5),
    types.float64: (1e-7, 1e-7), types.complex64: (1.3e-6, 1e-5), types.complex128: (1e-7, 1e-7),
}
_NUMBERS = {bool: types.bool_, int: types.int64, float: types.float64, complex: types.complex128}


class _Rules(NamedTuple):
    rtol: float | None
    atol: float | None
    equal_nan: bool
    checks: tuple[str, ...]  # attributes that must be equal too
    msg: str | Callable[[str], str] | None


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Takes tensors, numbers, and sequences and mappings of them. The tolerances depend on the dtype
    where they are not given.

    >>> torch.testing.assert_close(torch.tensor([1.]), torch.tensor([1.0000001]))
    """
    if (rtol is None) != (atol is None):
        name, supplied = ("atol", "rtol") if atol is None else ("rtol", "atol")
        raise ValueError(f"rtol and atol must both be specified or both be unspecified, but got no "
                         f"{name} with {supplied}={rtol if atol is None else atol}")
    if not allow_subclasses and type(actual) is not type(expected):
        raise TypeError(f"{type(actual)} and {type(expected)} are not of one class")
    wanted = {"device": check_device, "dtype": check_dtype, "layout": check_layout,
              "stride": check_stride}
    checks = tuple(name for name, on in wanted.items() if on)
    _compare(actual, expected, _Rules(rtol, atol, equal_nan, checks, msg), "")


def _compare(actual: Any, expected: Any, rules: _Rules, place: str) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            _fail(f"The keys of the mappings do not match:\n{sorted(map(str, actual))} and "
                  f"{sorted(map(str, expected))}", rules, place)
        for key in actual:
            _compare(actual[key], expected[key], rules, f"{place}[{key!r}]")
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            _fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", rules,
                  place)
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, rules, f"{place}[{i}]")
    elif actual is None or expected is None:
        if actual is not expected:
            _fail(f"None mismatch: {actual} is not {expected}", rules, place)
    elif type(actual) in _NUMBERS and type(expected) in _NUMBERS:
        _compare_numbers(actual, expected, rules, place)
    else:
        _compare_tensors(_as_tensor(actual), _as_tensor(expected), rules, place)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (np.ndarray, np.generic, *_NUMBERS)):
        return ops.as_tensor(value)
    raise TypeError(f"No comparison pair was able to handle inputs of type {type(value)}")


def _fail(text: str, rules: _Rules, place: str) -> None:
    text += f"\n\nThe failure occurred for item {place}" if place else ""
    if callable(rules.msg):
        text = rules.msg(text)
    elif rules.msg is not None:
        text = rules.msg
    raise AssertionError(text)


def _tolerances(kinds: Sequence[dtype], rules: _Rules) -> tuple[float, float]:
    if rules.rtol is not None and rules.atol is not None:
        return rules.rtol, rules.atol
    result = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
    return max(r for r, _ in result), max(a for _, a in result)


def _compare_numbers(actual: Any, expected: Any, rules: _Rules, place: str) -> None:
    if type(actual) is not type(expected) and "dtype" in rules.checks:
        _fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.", rules, place)
    rtol, atol = _tolerances([_NUMBERS[type(actual)], _NUMBERS[type(expected)]], rules)
    if actual == expected:
        return
    if cmath.isnan(actual) and cmath.isnan(expected) and rules.equal_nan:
        return
    difference = abs(actual - expected)
    finite = cmath.isfinite(actual) and cmath.isfinite(expected)
    if not finite or difference > atol + rtol * abs(expected):
        relative = difference / abs(expected) if expected else float("inf")
        _fail(f"Scalars are not close!\n\nExpected {expected} but got {actual}.\n"
              f"Absolute difference: {difference} (up to {atol} allowed)\n"
              f"Relative difference: {relative} (up to {rtol} allowed)", rules, place)


def _compare_tensors(actual: Tensor, expected: Tensor, rules: _Rules, place: str) -> None:
    if actual.shape != expected.shape:
        _fail(f"The values for attribute 'shape' do not match: {actual.shape} != "
              f"{expected.shape}.", rules, place)
    for name in rules.checks:
        a, b = getattr(actual, name), getattr(expected, name)
        a, b = (a(), b()) if name == "stride" else (a, b)
        if a != b:
            _fail(f"The values for attribute '{name}' do not match: {a} != {b}.", rules, place)
    rtol, atol = _tolerances([actual.dtype, expected.dtype], rules)
    if actual.dtype != expected.dtype:
        common = promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    close = ops.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=rules.equal_nan)
    if not bool(close.all()):
        kind = "Tensor-likes are not close" if rtol or atol else "Tensor-likes are not equal"
        _fail(f"{kind}!\n\n{_worst(actual, expected, close, rtol, atol)}", rules, place)


def _worst(actual: Tensor, expected: Tensor, close: Tensor, rtol: float, atol: float) -> str:
    """How many elements differ, and where by how much."""
    if expected.dtype is types.bfloat16:  # which NumPy lacks
        actual, expected = actual.float(), expected.float()
    a, b = actual.numpy(), expected.numpy()
    if a.dtype.kind in "iub":
        a, b = a.astype(object).astype(float), b.astype(object).astype(float)
    off = ~close.numpy()
    with np.errstate(all="ignore"):
        absolute = np.where(off, np.abs(a - b), 0)
        relative = np.where(off, np.abs(a - b) / np.abs(b), 0)
    count, total = int(off.sum()), max(off.size, 1)
    lines = [f"Mismatched elements: {count} / {off.size} ({count / total:.1%})"] if off.ndim else []
    for title, values, allowed in (("absolute", absolute, atol), ("relative", relative, rtol)):
        at = np.unravel_index(np.nanargmax(np.nan_to_num(values, nan=np.inf)), values.shape)
        where = f" at index {tuple(map(int, at))}" if off.ndim else ""
        limit = f" (up to {allowed} allowed)" if rtol or atol else ""
        lines.append(f"Greatest {title} difference: {values[at]}{where}{limit}")
    return "\n".join(lines)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = True, msg: str = "",
) -> None:
    """The older name of `assert_close`, which does not look at dtypes.

    >>> torch.testing.assert_allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    """
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12; use "
        "`torch.testing.assert_close()`",
        FutureWarning,
    )
    assert_close(ops.as_tensor(actual), ops.as_tensor(expected), rtol=rtol, atol=atol,
                 equal_nan=equal_nan, check_dtype=False, msg=msg or None)
