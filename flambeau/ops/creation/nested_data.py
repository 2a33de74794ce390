"""Read nested Python data item by item, in PyTorch's order: sizes, then classes, then numbers.

Data of one shape whose leaves are numbers takes the fast path of python_data.py. All other data
comes here: rows may be any iterable, numbers any object with `__float__` or `__index__`, and what
is neither raises PyTorch's error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.foundation.public_names import c_class_name
from ...tensor import dtypes as types
from ...tensor.dtypes import dtype as Dtype
from ...tensor.dtypes import from_numpy_dtype
from ...tensor.tensor import Tensor


def is_sequence(data: Any) -> bool:
    """Whether Python's C interface calls `data` a sequence; tensors and 0-d arrays are numbers."""
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    return hasattr(type(data), "__getitem__") and not isinstance(
        data, (dict, Tensor, np.generic)
    )


def measure_first(data: Any) -> tuple[int, ...]:
    """Return the shape that the first item of each level implies."""
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    shape: tuple[int, ...] = ()
    while is_sequence(data):
        try:
            shape = (*shape, len(data))
            if len(shape) > 128:
                raise ValueError(f"too many dimensions '{type(data).__name__}'")
            if not shape[-1]:
                break
            data = data[0]
        except ValueError:
            raise
        except Exception:
            raise ValueError("could not determine the shape of object type "
                             f"'{type(data).__name__}'") from None
    return shape


def collect_classes(data: Any, classes: set[type], dtypes: set[Dtype]) -> None:
    """Add the classes of numbers and the dtypes of arrays and tensors within `data`."""
    if isinstance(data, (Tensor, np.ndarray)):
        array = data._array if isinstance(data, Tensor) else data
        dtypes.add(from_numpy_dtype(array.dtype))
    elif isinstance(data, (bool, int, float, complex, np.generic)):
        classes.add(type(data))
    elif isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    elif is_sequence(data):
        if not len(data):
            dtypes.add(types.get_default_dtype())
        for item in data:
            collect_classes(item, classes, dtypes)
    else:
        raise RuntimeError(f"Could not infer dtype of {c_class_name(data)}")


def read_numbers(
    data: Any, shape: tuple[int, ...], dtype: Dtype, take: Callable[[Any], None], axis: int = 0
) -> None:
    """Call `take` with each number of `data`, converted as for elements of `dtype`."""
    if 0 in shape:
        return
    if axis == len(shape):
        take(_read_number(data, dtype))
        return
    try:
        items = list(data)
    except TypeError:
        raise TypeError("not a sequence") from None
    if len(items) != shape[axis]:
        raise ValueError(
            f"expected sequence of length {shape[axis]} at dim {axis} (got {len(items)})"
        )
    for item in items:
        read_numbers(item, shape, dtype, take, axis + 1)


def _read_number(value: Any, dtype: Dtype) -> Any:
    """Return `value` as Python's number for `dtype`. Raises Python's TypeError if it is none."""
    if isinstance(value, (Tensor, np.ndarray)):
        size = (value._array if isinstance(value, Tensor) else value).size
        if size != 1 and dtype.category in (types.BOOL, types.INTEGER):
            raise TypeError(
                "only integer tensors of a single element can be converted to an index"
            )
        if size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, complex) and (dtype.is_complex or dtype is types.bool_):
        return value
    if isinstance(value, np.complexfloating) and dtype.is_complex:
        return complex(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if dtype.is_complex or dtype.category == types.FLOATING:
        return math.ldexp(value, 0)  # it asks for a real number in Python's words
    return operator.index(value)
