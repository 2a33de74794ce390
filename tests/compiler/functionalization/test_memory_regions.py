"""Windows on regions of memory: read and written as NumPy does on the memory itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.compiler.ir.interpreter import evaluate
from flambeau.compiler.ir.graph import Graph, Node, Op, Source, SourceKind
from flambeau.compiler.lowering.numpy.node_builders import literal
from flambeau.compiler.lowering.registry import Untraceable
from flambeau.compiler.functionalization.memory_regions import Region, partition, locate_window
from flambeau.compiler.trace.trace import Value, address
from flambeau.native.loop_ir.ir import Type


def _value(owner: np.ndarray, window: np.ndarray) -> Value:
    return Value(0, address(window) - address(owner), window.shape, window.strides, window.dtype)


def _input(region: Region) -> None:
    region.node = Node(Op.INPUT, (), region.shape, Type.F32, {"slot": 0})


def _run(region: Region, node: Node, owner: np.ndarray) -> np.ndarray:
    item = owner.itemsize
    start = owner.reshape(-1)[region.offset // item :]
    window = np.lib.stride_tricks.as_strided(start, region.shape, [s for _, s in region.axes])
    source = Source(SourceKind.STATE, region.shape, Type.F32, lambda: window)
    return evaluate(Graph([source], [], [node], []), [window])[0][0]


@st.composite
def _windows(draw, a: np.ndarray, steps: int = 4) -> np.ndarray:
    """A view of an array, by a chain of movements."""
    for _ in range(draw(st.integers(0, steps))):
        kind = draw(st.sampled_from(["slice", "transpose", "reshape", "newaxis", "pick", "flip"]))
        if kind == "transpose":
            a = a.transpose(draw(st.permutations(range(a.ndim))))
        elif kind == "newaxis":
            a = a[(slice(None),) * draw(st.integers(0, a.ndim)) + (None,)]
        elif kind == "reshape":
            try:
                b = a.view()
                b.shape = (-1,) if a.size else b.shape
                a = b
            except AttributeError:
                continue
        elif a.ndim and min(a.shape) > 0:
            axis = draw(st.integers(0, a.ndim - 1))
            n = a.shape[axis]
            low = draw(st.integers(0, n - 1))
            high, step = draw(st.integers(low + 1, n)), draw(st.integers(1, 3))
            index = {"slice": slice(low, high, step), "pick": low, "flip": slice(None, None, -1)}
            a = a[(slice(None),) * axis + (index[kind], Ellipsis)]
    return a


_SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_windows_are_read_and_written(data):
    shape = data.draw(_SHAPES)
    owner = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    first = data.draw(_windows(owner))
    second = data.draw(_windows(owner))
    values = [_value(owner, owner), _value(owner, first), _value(owner, second)]
    (region,) = partition(values)
    _input(region)
    assert np.array_equal(_run(region, region.read(values[1]), owner), first)
    new = -np.arange(1, first.size + 1, dtype=np.float32).reshape(first.shape)
    region.write(values[1], literal(new))
    read = region.read(values[2])
    expected = owner.copy()
    np.lib.stride_tricks.as_strided(
        expected.reshape(-1)[values[1].offset // 4 :], first.shape, first.strides
    )[...] = new
    wanted = np.ndarray(second.shape, np.float32, expected, values[2].offset, second.strides)
    assert np.array_equal(_run(region, read, owner), wanted)
    assert np.array_equal(_run(region, region.value, owner).reshape(shape), expected)


def test_windows_that_do_not_meet_are_regions_of_their_own():
    owner = np.arange(20, dtype=np.float32)
    parts = [owner[:6].reshape(2, 3), owner[8:16].reshape(2, 4).T, owner[17]]
    values = [_value(owner, np.asarray(p)) for p in parts[:2]]
    regions = partition(values)
    assert [r.shape for r in regions] == [(2, 3), (2, 4)]
    assert regions[1].offset == 32


def test_a_window_with_gaps_is_a_region_with_gaps():
    owner = np.arange(24, dtype=np.float32).reshape(4, 6)
    window = owner[:, 1:3]
    (region,) = partition([_value(owner, window)])
    assert region.axes == ((4, 24), (2, 4))
    _input(region)
    value = _value(owner, window[1])
    assert np.array_equal(_run(region, region.read(value), owner), window[1])


def test_overlapping_windows_are_gathered_and_not_written():
    owner = np.arange(6, dtype=np.float32)
    window = np.lib.stride_tricks.sliding_window_view(owner, 3)
    (region,) = partition([_value(owner, owner)])
    _input(region)
    value = _value(owner, window)
    assert np.array_equal(_run(region, region.read(value), owner), window)
    with pytest.raises(Untraceable, match="overlap"):
        region.write(_value(owner, np.broadcast_to(owner[:1], (3,))), literal(np.zeros(3, "f4")))


def test_other_dtypes_of_one_size_are_bits():
    owner = np.arange(6, dtype=np.float32)
    (region,) = partition([_value(owner, owner)])
    _input(region)
    actual = _run(region, region.read(_value(owner, owner.view(np.int32))), owner)
    assert np.array_equal(actual, owner.view(np.int32))
    with pytest.raises(Untraceable, match="different element size"):
        region.read(_value(owner, owner.view(np.float64)))


def test_place_keeps_rows_whole():
    window = locate_window(
        ((4, 24), (6, 4)), 24, Value(0, 24, (3, 6), (24, 4), np.dtype(np.float32))
    )
    assert window is not None
    assert window.extents == (4, 6)
    assert (window.starts, window.lengths) == ((1, 0), (3, 6))
