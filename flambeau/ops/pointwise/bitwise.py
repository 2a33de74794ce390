"""Bits of integers and bools: and, or, xor, not, shifts, and Python's operators for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...tensor.dtypes import BOOL, COMPLEX, FLOATING, INTEGER
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.dispatch import make_python_operator, reflect
from ..core.inplace import make_python_in_place
from ..core.operator import Array, Number
from ..core.registry import composite, pointwise
from ..core.sample_inputs import Rng, Sample


def _bits(rng: Rng) -> Iterator[Sample]:
    for left, right in (((5,), (5,)), ((3, 4), (4,)), ((), (3,))):
        yield (rng.integers(-9, 9, left), rng.integers(0, 9, right)), {}


def _single_operand(rng: Rng) -> Iterator[Sample]:
    yield (rng.integers(-9, 9, (3, 4)),), {}
    yield (np.array([True, False]),), {}


@pointwise(
    ref=lambda x, y: x & y, samples=_bits, differentiable=False, refuse=dtype_refusals.floats
)
def bitwise_and(input: Array | Number, other: Array | Number) -> Array:
    """Bitwise AND of two integer or bool tensors.

    >>> torch.tensor([1, 6]) & 3
    tensor([1, 2])
    """
    return np.bitwise_and(input, other)


@pointwise(
    ref=lambda x, y: x | y, samples=_bits, differentiable=False, refuse=dtype_refusals.floats
)
def bitwise_or(input: Array | Number, other: Array | Number) -> Array:
    """Bitwise OR of two integer or bool tensors.

    >>> torch.tensor([1, 6]) | 3
    tensor([3, 7])
    """
    return np.bitwise_or(input, other)


@pointwise(
    ref=lambda x, y: x ^ y, samples=_bits, differentiable=False, refuse=dtype_refusals.floats,
    reads_bool_bytes=True,
)
def bitwise_xor(input: Array | Number, other: Array | Number) -> Array:
    """Bitwise XOR of two integer or bool tensors.

    >>> torch.tensor([1, 6]) ^ 3
    tensor([2, 5])
    """
    return np.bitwise_xor(input, other)


@pointwise(
    ref=lambda x: ~x, samples=_single_operand, differentiable=False, refuse=dtype_refusals.floats
)
def bitwise_not(input: Array) -> Array:
    """Bitwise NOT of integers; logical NOT of bools.

    >>> torch.bitwise_not(torch.tensor([True, False]))
    tensor([False,  True])
    """
    return np.invert(input)


def _refuse_shift(kernel: str) -> dtype_refusals.Refusal:
    error = dtype_refusals.as_kernel(kernel)
    return dtype_refusals.Refusal(FLOATING, COMPLEX, BOOL, error=error)


@pointwise(ref=lambda x, y: x * 2**y, samples=_bits, differentiable=False,
           refuse=_refuse_shift("lshift_cpu"))
def bitwise_left_shift(input: Array | Number, other: Array | Number) -> Array:
    """Shift bits left by `other` places, input * 2**other.

    >>> torch.tensor([1, 3]) << 2
    tensor([ 4, 12])
    """
    return np.left_shift(input, other)


@pointwise(ref=lambda x, y: x // 2**y, samples=_bits, differentiable=False,
           refuse=_refuse_shift("rshift_cpu"))
def bitwise_right_shift(input: Array | Number, other: Array | Number) -> Array:
    """Shift bits right by `other` places, input // 2**other.

    >>> torch.tensor([8, -8]) >> 2
    tensor([ 2, -2])
    """
    return np.right_shift(input, other)


@composite(name="__invert__", expose=("Tensor",), explains=True)
def _invert(self: Tensor) -> Tensor:
    """Bitwise NOT, ~self; TypeError unless the tensor holds integers or bools.

    >>> ~torch.tensor([0, 5])
    tensor([-1, -6])
    """
    if self.dtype.category not in (BOOL, INTEGER):
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors, not on "
            f"{self.dtype}"
        )
    return bitwise_not(self)


for _name, _operator in (
    ("and", bitwise_and), ("or", bitwise_or), ("xor", bitwise_xor),
    ("lshift", bitwise_left_shift), ("rshift", bitwise_right_shift),
):
    setattr(Tensor, f"__{_name}__", make_python_operator(_operator.operator, f"__{_name}__"))
    setattr(Tensor, f"__i{_name}__", make_python_in_place(_operator.operator.twin))
for _name, _operator in (
    ("__rand__", bitwise_and), ("__ror__", bitwise_or), ("__rxor__", bitwise_xor),
):
    setattr(Tensor, _name, make_python_operator(_operator.operator, _name))
for _name, _operator in (
    ("__rlshift__", bitwise_left_shift), ("__rrshift__", bitwise_right_shift),
):
    setattr(Tensor, _name, reflect(_operator.operator))

