"""The base class of tests that compare tensors, as PyTorch's own and libraries' tests have it."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np

from ...ops import as_tensor
from ...random import manual_seed
from ...tensor import Tensor
from ..pairs import (
    BooleanPair, NonePair, NumberPair, ObjectPair, Pair, TensorLikePair, UnsupportedInputs,
    assert_equal,
)

__all__ = ["TestCase", "run_tests"]


def _read_single(value: Any, kinds: tuple[type, ...]) -> Any:
    """A number of these types, also from a tensor or array of one element."""
    if isinstance(value, (Tensor, np.ndarray)):
        size = value.numel() if isinstance(value, Tensor) else value.size
        if size != 1:
            raise UnsupportedInputs
        value = value.item()
    if not isinstance(value, kinds):
        raise UnsupportedInputs
    return value


class _RelaxedBooleanPair(BooleanPair):
    """Bools, of which one may be a tensor's only element."""

    def _process_inputs(self, actual: Any, expected: Any, *, id: Any) -> tuple[bool, bool]:
        if not any(isinstance(x, (bool, np.bool_)) for x in (actual, expected)):
            self._inputs_not_supported()
        kinds = (bool, np.bool_, int, float)
        return bool(_read_single(actual, kinds)), bool(_read_single(expected, kinds))


class _RelaxedNumberPair(NumberPair):
    """Numbers of any type, of which one may be a tensor's only element."""

    def __init__(self, actual: Any, expected: Any, **options: Any) -> None:
        super().__init__(actual, expected, **{**options, "check_dtype": False})
        if options.get("rtol") is None and not isinstance(self.actual, int):
            self.rtol, self.atol = 1.3e-6, 1e-5  # of float32

    def _process_inputs(self, actual: Any, expected: Any, *, id: Any) -> tuple[Any, Any]:
        if not any(isinstance(x, (int, float, complex, np.number)) for x in (actual, expected)):
            self._inputs_not_supported()
        kinds = (int, float, complex, np.number)
        a, b = (_read_single(x, kinds) for x in (actual, expected))
        return self._to_number(a, id=id), self._to_number(b, id=id)


class _TensorOrArrayPair(TensorLikePair):
    """Tensors and arrays, also one with the other."""

    def _process_inputs(
        self, actual: Any, expected: Any, *, id: Any, allow_subclasses: bool
    ) -> tuple[Any, Any]:
        if not any(isinstance(x, (Tensor, np.ndarray)) for x in (actual, expected)):
            self._inputs_not_supported()
        a, b = (self._to_tensor(x) for x in (actual, expected))
        return a, b


class _UnittestPair(Pair):
    """Values that unittest compares, in its words."""

    kind: tuple[type, ...]
    title: str
    method: str

    def __init__(self, actual: Any, expected: Any, *, id: Any = (), **unknown: Any) -> None:
        self._check_inputs_isinstance(actual, expected, cls=self.kind)
        super().__init__(actual, expected, id=id, **unknown)

    def compare(self) -> None:
        """Compare by unittest's method for these values."""
        case = unittest.TestCase()
        try:
            getattr(case, self.method)(self.actual, self.expected)
        except case.failureException as error:
            self.fail(f"{self.title} comparison failed: {error}")


class _StringPair(_UnittestPair):
    kind, title, method = (str, bytes), "String", "assertEqual"


class _SetPair(_UnittestPair):
    kind, title, method = (set,), "Set", "assertSetEqual"


class TestCase(unittest.TestCase):
    """A unittest.TestCase that starts from a fixed seed and compares tensors."""

    precision = 0.0
    rel_tol = 0.0
    maxDiff = None

    def setUp(self) -> None:
        """Seed the generator."""
        manual_seed(1234)

    def assertEqual(
        self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None,
        rtol: float | None = None, equal_nan: bool = True, exact_dtype: bool = True,
        exact_device: bool = False, exact_layout: bool = False, exact_stride: bool = False,
    ) -> None:
        """Fail unless values, or the leaves of containers, are close."""
        self._compare(x, y, msg, atol=atol, rtol=rtol, equal_nan=equal_nan,
                      exact_dtype=exact_dtype, exact_device=exact_device,
                      exact_layout=exact_layout, exact_stride=exact_stride)

    @staticmethod
    def _compare(
        x: Any, y: Any, msg: Any = None, *, atol: float | None = None,
        rtol: float | None = None, equal_nan: bool = True, exact_dtype: bool = True,
        exact_device: bool = False, exact_layout: bool = False, exact_stride: bool = False,
    ) -> None:
        if isinstance(x, Tensor) and isinstance(y, (list, tuple)):
            y = as_tensor(y, dtype=x.dtype)
        elif isinstance(y, Tensor) and isinstance(x, (list, tuple)):
            x = as_tensor(x, dtype=y.dtype)
        if (rtol is None) != (atol is None):
            rtol, atol = rtol or 0.0, atol or 0.0
        message = (lambda text: f"{text}\n{msg}") if isinstance(msg, str) else msg
        assert_equal(
            x, y, msg=message, rtol=rtol, atol=atol, equal_nan=equal_nan,
            check_device=exact_device, check_dtype=exact_dtype, check_layout=exact_layout,
            check_stride=exact_stride, pair_types=(
                NonePair, _RelaxedBooleanPair, _RelaxedNumberPair, _TensorOrArrayPair, _StringPair,
                _SetPair, ObjectPair),
            sequence_types=(tuple, list))

    def assertNotEqual(  # type: ignore[override]
        self, x: Any, y: Any, msg: Any = None, **options: Any
    ) -> None:
        """Fail if `assertEqual` would pass."""
        try:
            self._compare(x, y, **options)
        except AssertionError:
            return
        raise self.failureException(msg or "AssertionError not raised")


def run_tests(argv: list[str] | None = None) -> None:
    """Run the tests of the calling program's main module."""
    unittest.main(argv=argv)
