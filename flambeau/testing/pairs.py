"""Pairs of values that tests compare: what libraries derive their own comparisons from.

`originate_pairs` pairs the leaves of containers, each by the first class that takes both;
`not_close_error_metas` compares them and returns what failed.
"""

from __future__ import annotations

import cmath
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .. import ops
from ..tensor import Tensor
from ._comparison import (
    NUMBER_DTYPES, Rules, choose_tolerances, compare_attributes, compare_values, describe_scalars,
    equalize_attributes,
)

__all__ = [
    "BooleanPair", "ErrorMeta", "NonePair", "NumberPair", "ObjectPair", "Pair", "TensorLikePair",
    "UnsupportedInputs", "assert_equal", "not_close_error_metas", "originate_pairs",
]

Ids = tuple[Any, ...]


class ErrorMeta(Exception):
    """What is wrong with the values at a place in containers, as an error to be raised."""

    def __init__(self, type: type[Exception], msg: str, *, id: Ids = ()) -> None:
        super().__init__(msg)
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """Return the error, with a message of the caller's or one derived from this one."""
        if isinstance(msg, str):
            return self.type(msg)
        text = self.msg
        if self.id:
            text += f"\n\nThe failure occurred for item {''.join(str([i]) for i in self.id)}"
        return self.type(msg(text) if callable(msg) else text)


class UnsupportedInputs(Exception):
    """A class of pairs does not take these values."""


class Pair:
    """Two values and how they are compared; `compare` raises ErrorMeta where they differ."""

    def __init__(self, actual: Any, expected: Any, *, id: Ids = (), **unknown_parameters: Any
                 ) -> None:
        self.actual, self.expected, self.id = actual, expected, id
        self._unknown_parameters = unknown_parameters

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs: Any, cls: Any) -> None:
        if not all(isinstance(value, cls) for value in inputs):
            Pair._inputs_not_supported()

    def _fail(self, type: type[Exception], msg: str, *, id: Ids = ()) -> NoReturn:
        raise ErrorMeta(type, msg, id=self.id if not id and hasattr(self, "id") else id)

    def fail(self, text: str) -> NoReturn:
        """Raise ErrorMeta for an AssertionError."""
        self._fail(AssertionError, text)

    def compare(self) -> None:
        """Raise ErrorMeta unless both are equal."""
        raise NotImplementedError

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """Return names of attributes, or names and values, to show."""
        return []

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}("]
        for item in ("id", "actual", "expected", *self.extra_repr()):
            name, value = (item, getattr(self, item)) if isinstance(item, str) else item
            lines.append(f"    {name}={value!r},")
        return "\n".join([*lines, ")"])


class ObjectPair(Pair):
    """Any objects, which have to be equal."""

    def compare(self) -> None:
        """Compare by ==."""
        try:
            equal = self.actual == self.expected
        except Exception as error:
            raise ErrorMeta(ValueError, f"{self.actual} == {self.expected} failed with:\n{error}.",
                            id=self.id) from error
        if not equal:
            self.fail(f"{self.actual} != {self.expected}")


class NonePair(Pair):
    """None and None."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        if not (actual is None or expected is None):
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        """Fail unless both are None."""
        if not (self.actual is None and self.expected is None):
            self.fail(f"None mismatch: {self.actual} is not {self.expected}")


class BooleanPair(Pair):
    """Bools of Python or NumPy."""

    def __init__(self, actual: Any, expected: Any, *, id: Ids = (), **other_parameters: Any
                 ) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, **other_parameters)  # without the place, as in PyTorch

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return (bool, np.bool_)

    def _process_inputs(self, actual: Any, expected: Any, *, id: Ids) -> tuple[bool, bool]:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return self._to_bool(actual, id=id), self._to_bool(expected, id=id)

    def _to_bool(self, bool_like: Any, *, id: Ids) -> bool:
        return bool(bool_like)

    def compare(self) -> None:
        """Fail unless both are True or both False."""
        if self.actual is not self.expected:
            self.fail(f"Booleans mismatch: {self.actual} is not {self.expected}")


class NumberPair(Pair):
    """Numbers of Python or NumPy."""

    def __init__(
        self, actual: Any, expected: Any, *, id: Ids = (), rtol: float | None = None,
        atol: float | None = None, equal_nan: bool = False, check_dtype: bool = False,
        **other_parameters: Any,
    ) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)
        kinds = [NUMBER_DTYPES[type(value)] for value in (actual, expected)]
        self.rtol, self.atol = choose_tolerances(
            kinds, Rules(rtol, atol, equal_nan, True, (), None))
        self.equal_nan, self.check_dtype = equal_nan, check_dtype

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return (*NUMBER_DTYPES, np.number)

    def _process_inputs(self, actual: Any, expected: Any, *, id: Ids) -> tuple[Any, Any]:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return self._to_number(actual, id=id), self._to_number(expected, id=id)

    def _to_number(self, number_like: Any, *, id: Ids) -> Any:
        if isinstance(number_like, np.number):
            return number_like.item()
        return int(number_like) if isinstance(number_like, bool) else number_like

    def compare(self) -> None:
        """Fail unless the numbers are within the tolerances."""
        actual, expected = self.actual, self.expected
        if self.check_dtype and type(actual) is not type(expected):
            self.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        if actual == expected:
            return
        if self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected):
            return
        difference = abs(actual - expected)
        if not (cmath.isfinite(difference)
                and difference <= self.atol + self.rtol * abs(expected)):
            self.fail(describe_scalars(actual, expected, (self.rtol, self.atol)))

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """Return the names of the settings."""
        return ("rtol", "atol", "equal_nan", "check_dtype")


class TensorLikePair(Pair):
    """Tensors, and what `torch.as_tensor` takes."""

    def __init__(
        self, actual: Any, expected: Any, *, id: Ids = (), allow_subclasses: bool = True,
        rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
        check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
        check_stride: bool = False, **other_parameters: Any,
    ) -> None:
        actual, expected = self._process_inputs(
            actual, expected, id=id, allow_subclasses=allow_subclasses)
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = choose_tolerances(
            [actual.dtype, expected.dtype], Rules(rtol, atol, equal_nan, True, (), None))
        self.equal_nan = equal_nan
        self.check_device, self.check_dtype = check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    @property
    def rules(self) -> Rules:
        """The settings, as functions of comparisons read them."""
        enabled = {"device": self.check_device, "dtype": self.check_dtype,
                   "layout": self.check_layout, "stride()": self.check_stride}
        checks = tuple(name for name, on in enabled.items() if on)
        return Rules(self.rtol, self.atol, self.equal_nan, True, checks, None)

    def _process_inputs(
        self, actual: Any, expected: Any, *, id: Ids, allow_subclasses: bool
    ) -> tuple[Any, Any]:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or not (allow_subclasses or type(actual) is type(expected)):
            self._inputs_not_supported()
        return self._to_tensor(actual), self._to_tensor(expected)

    def _to_tensor(self, tensor_like: Any) -> Any:
        if isinstance(tensor_like, Tensor):
            return tensor_like
        with contextlib.suppress(Exception):
            return ops.as_tensor(tensor_like)
        return self._inputs_not_supported()

    def compare(self) -> None:
        """Compare attributes, then values."""
        actual, expected = self.actual, self.expected
        self._compare_attributes(actual, expected)
        if "meta" in (actual.device.type, expected.device.type):
            return
        self._compare_values(*self._equalize_attributes(actual, expected))

    def _compare_attributes(self, actual: Tensor, expected: Tensor) -> None:
        compare_attributes(self, actual, expected)

    def _equalize_attributes(self, actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
        return equalize_attributes(actual, expected)

    def _compare_values(self, actual: Tensor, expected: Tensor) -> None:
        compare_values(self, actual.detach(), expected.detach(), (self.rtol, self.atol))

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """Return the names of the settings."""
        return ("rtol", "atol", "equal_nan", "check_device", "check_dtype", "check_layout",
                "check_stride")


def originate_pairs(
    actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]],
    sequence_types: tuple[type, ...] = (Sequence,), mapping_types: tuple[type, ...] = (Mapping,),
    id: Ids = (), **options: Any,
) -> list[Pair]:
    """Return the pairs of the leaves of two values; ErrorMeta if their containers differ."""
    kinds: dict[str, Any] = {"pair_types": pair_types, "sequence_types": sequence_types,
             "mapping_types": mapping_types}
    if all(isinstance(x, sequence_types) and not isinstance(x, str) for x in (actual, expected)):
        if len(actual) != len(expected):
            raise ErrorMeta(AssertionError, "The length of the sequences mismatch: "
                            f"{len(actual)} != {len(expected)}", id=id)
        keys: Collection[Any] = range(len(actual))
    elif all(isinstance(x, mapping_types) for x in (actual, expected)):
        actual_keys, expected_keys = set(actual), set(expected)
        if actual_keys != expected_keys:
            raise ErrorMeta(
                AssertionError, "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(expected_keys - actual_keys)}\n"
                f"Additional keys in the actual mapping: {sorted(actual_keys - expected_keys)}",
                id=id)
        keys = actual_keys
        with contextlib.suppress(TypeError):
            keys = sorted(actual_keys)
    else:
        for cls in pair_types:
            with contextlib.suppress(UnsupportedInputs):
                return [cls(actual, expected, id=id, **options)]
        raise ErrorMeta(TypeError, "No comparison pair was able to handle inputs of type "
                        f"{type(actual)} and {type(expected)}.", id=id)
    return [pair for key in keys for pair in originate_pairs(
        actual[key], expected[key], id=(*id, key), **kinds, **options)]


def not_close_error_metas(
    actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]] = (ObjectPair,),
    sequence_types: tuple[type, ...] = (Sequence,), mapping_types: tuple[type, ...] = (Mapping,),
    **options: Any,
) -> list[ErrorMeta]:
    """Compare two values leaf by leaf, and return what is wrong."""
    try:
        pairs = originate_pairs(actual, expected, pair_types=pair_types,
                                sequence_types=sequence_types, mapping_types=mapping_types,
                                **options)
    except ErrorMeta as error:
        raise error.to_error() from None
    failures = []
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as error:
            failures.append(error)
    return failures


def assert_equal(
    actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]] = (ObjectPair,),
    sequence_types: tuple[type, ...] = (Sequence,), mapping_types: tuple[type, ...] = (Mapping,),
    msg: str | Callable[[str], str] | None = None, **options: Any,
) -> None:
    """Raise the first error of two values that differ.

    >>> from flambeau.testing.pairs import assert_equal
    >>> assert_equal([1, "a"], [1, "a"])
    """
    failures = not_close_error_metas(
        actual, expected, pair_types=pair_types, sequence_types=sequence_types,
        mapping_types=mapping_types, **options)
    if failures:
        raise failures[0].to_error(msg)
