"""evaluate(): each operation against NumPy or a direct sum, at awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.ir.interpreter import evaluate, make_slices, type_of
from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.compiler.ir.graph import (
    Graph, Node, Op, Source, SourceKind, apply, cast, pad, reduce, strided_slice,
)
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

DRAW = np.random.RandomState(0)


def _node(a: np.ndarray) -> Node:
    return Node(Op.ARRAY, (), a.shape, type_of(a.dtype), {"value": a})


def _run(node: Node) -> np.ndarray:
    return evaluate(Graph([], [], [node], []), [])[0][0]


def test_sources_writes_and_numbers():
    sources = [Source(SourceKind.STATE, (2, 3), Type.F32, lambda: None),
               Source(SourceKind.NUMBER, (), Type.F64, lambda: None)]
    x = Node(Op.INPUT, (), (2, 3), Type.F32, {"slot": 0})
    rate = Node(Op.INPUT, (), (), Type.F64, {"slot": 1})
    y = apply(Scalar.MUL, x, cast(rate, Type.F32))
    a = np.ones((2, 3), np.float32)
    outputs, writes = evaluate(Graph(sources, [x, rate], [y], [(0, y)]), [a, 0.5])
    assert np.all(outputs[0] == 0.5)
    assert writes[0][0] == 0
    assert np.all(writes[0][1] == 0.5)
    assert np.all(a == 1)


@pytest.mark.parametrize("type", [Type.F32, Type.F64, Type.F16, Type.BF16, Type.I32, Type.BOOL])
def test_types(type):
    result = _run(cast(_node(np.array([0.0, 1.5, -2.0])), type))
    assert result.dtype == dtype_of(type)
    assert type_of(result.dtype) is type
    with pytest.raises(TypeError, match="complex64"):
        type_of(np.dtype(np.complex64))


def test_integer_division_rounds_towards_zero():
    a, b = np.array([7, -7, 7, -7, 6]), np.array([2, 2, -2, -2, 3])
    assert _run(apply(Scalar.DIV, _node(a), _node(b))).tolist() == [3, -3, -3, 3, 2]
    assert _run(apply(Scalar.REM, _node(a), _node(b))).tolist() == [1, -1, 1, -1, 0]


def test_windows_updates_and_padding():
    a = DRAW.rand(5, 7).astype(np.float32)
    assert np.array_equal(_run(strided_slice(_node(a), (4, 1), (-2, 3), (3, 2))), a[4::-2, 1::3])
    assert np.array_equal(_run(strided_slice(_node(a), (0, 2), (1, 1), (0, 3))), a[:0, 2:5])
    assert make_slices((4,), (-2,), (3,)) == (slice(4, None, -2),)
    b = np.zeros((2, 2), np.float32)
    update = Node(Op.UPDATE, (_node(a), _node(b)), a.shape, Type.F32,
                  {"starts": (1, 0), "steps": (2, 3)})
    wanted = a.copy()
    wanted[1:4:2, 0:4:3] = 0
    assert np.array_equal(_run(update), wanted)
    assert np.array_equal(_run(pad(_node(a), (1, 0), (0, 2))), np.pad(a, ((1, 0), (0, 2))))


def test_folds_over_nothing_and_over_nan():
    empty = _node(np.zeros((0, 3), np.float32))
    assert _run(reduce(empty, ReduceOp.SUM, [0])).tolist() == [[0, 0, 0]]
    assert _run(reduce(empty, ReduceOp.MAXIMUM, [0])).tolist() == [[-np.inf] * 3]
    a = _node(np.array([[1, np.nan, 3], [4, 5, np.nan]], np.float32))
    assert np.isnan(_run(reduce(a, ReduceOp.MAXIMUM, [1]))).all()
    assert _run(reduce(a, ReduceOp.ARGMAX, [1])).tolist() == [[1], [2]]
    whole = _node(np.arange(6).reshape(2, 3))
    scan = Node(Op.SCAN, (whole,), (2, 3), Type.I64, {"fold": ReduceOp.SUM, "axis": 1})
    assert _run(scan).tolist() == [[0, 1, 3], [3, 7, 12]]


@pytest.mark.parametrize(
    ("stride", "dilation", "groups"),
    [((1, 1), (1, 1), 1), ((2, 3), (1, 1), 1), ((1, 2), (2, 1), 2), ((1, 1), (1, 1), 4)],
)
def test_convolution_and_its_weights_gradient(stride, dilation, groups):
    x = torch.randn(2, 4, 9, 10, dtype=torch.float64)
    w = torch.randn(8, 4 // groups, 3, 2, dtype=torch.float64, requires_grad=True)
    y = F.conv2d(x, w, stride=stride, dilation=dilation, groups=groups)
    g = torch.randn(*y.shape, dtype=torch.float64)
    y.backward(g)
    options = {"stride": stride, "dilation": dilation, "groups": groups}

    def last(t):
        return _node(np.ascontiguousarray(t.detach().permute(0, 2, 3, 1).numpy()))

    kernel = _node(np.ascontiguousarray(w.detach().permute(2, 3, 1, 0).numpy()))
    shape = (y.shape[0], *y.shape[2:], y.shape[1])
    node = Node(Op.CONV, (last(x), kernel), shape, Type.F64, options)
    assert np.allclose(_run(node), y.detach().permute(0, 2, 3, 1).numpy())
    grad = Node(Op.CONV_WEIGHT, (last(x), last(g)), kernel.shape, Type.F64, options)
    assert np.allclose(_run(grad), w.grad.permute(2, 3, 1, 0).numpy())


def test_rows():
    x = DRAW.rand(5, 3).astype(np.float32)
    index = np.array([[4, 0], [4, 2]])
    take = Node(Op.TAKE, (_node(x), _node(index)), (2, 2, 3), Type.F32)
    assert np.array_equal(_run(take), x[index])
    add = Node(Op.ADD_ROWS, (_node(index), take), (5, 3), Type.F32)
    wanted = np.zeros((5, 3), np.float32)
    np.add.at(wanted, index, x[index])
    assert np.allclose(_run(add), wanted)


def test_a_call_runs_once_for_all_its_results():
    count = []

    def divided(a):
        count.append(1)
        return a // 2, a % 2

    a, group = _node(np.arange(5)), object()
    both = [Node(Op.CALL, (a,), (5,), Type.I64, {"function": divided, "output": i, "group": group})
            for i in range(2)]
    result = _run(apply(Scalar.ADD, apply(Scalar.ADD, both[0], both[0]), both[1]))
    assert result.tolist() == list(range(5))
    assert len(count) == 1
