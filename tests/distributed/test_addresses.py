"""Where engines find an array's elements, and how operations are looked up."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.distributed.engines.engine import address_of
from flambeau.distributed.reduce_op import ReduceOp


@pytest.mark.parametrize(
    "array",
    [
        np.ones(3, np.float32), np.ones((2, 3), np.float16), np.arange(6)[2:], np.empty(0),
        np.frombuffer(b"abcd", np.uint8), np.ones(2, "datetime64[s]"), np.ones(()),
    ],
    ids=["floats", "halves", "window", "empty", "read-only", "no buffer", "no axes"],
)
def test_addresses_are_numpys(array) -> None:
    assert address_of(array) == array.ctypes.data


def test_an_address_keeps_no_hold_of_the_array() -> None:
    array = np.ones(4)
    address_of(array)
    array.resize(8, refcheck=False)  # BufferError while its memory is exported
    assert array.size == 8


def test_operations_are_keys_that_are_looked_up_without_python_code() -> None:
    assert ReduceOp.__hash__ is object.__hash__
    assert {ReduceOp.SUM: 1}[ReduceOp.SUM] == 1
