"""An optimizer's formula as nodes: for the next parameter of a shape they are copied."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flambeau.compiler.ir.interpreter import evaluate
from flambeau.compiler.lowering.operators.optimizer_update import copy_update, trace_update
from flambeau.compiler.ir.graph import Graph, Node, Op, sort_topologically
from flambeau.native.loop_ir.ir import Type


class Scalars(NamedTuple):
    rate: Any
    decay: Any


def formula(flags, scalars, param, grad, state):
    del flags
    state.mul_(scalars.decay).add_(grad)
    param.add_(state, alpha=scalars.rate)


def inputs(first, *kinds):
    return [Node(Op.INPUT, (), shape, type, {"slot": first + i})
            for i, (shape, type) in enumerate(kinds)]


def test_a_copy_computes_the_same_of_other_tensors():
    numbers = inputs(0, ((), Type.F64), ((), Type.F64))
    kind = (3, 2), Type.F32
    old, new = inputs(2, *[kind] * 3), inputs(2, *[kind] * 3)
    updated = trace_update(formula, None, Scalars, numbers, old)
    again = copy_update(updated, old, new, numbers)
    assert again is not None
    assert again[1] is new[1]  # the gradient, which the formula leaves alone
    met = set(map(id, sort_topologically(again)))
    assert met.isdisjoint(map(id, old))
    draw = np.random.default_rng(0)
    values = [np.float64(0.1), np.float64(0.9), *draw.normal(size=(3, 3, 2)).astype(np.float32)]
    results = [evaluate(Graph([], [], roots, []), values)[0] for roots in (updated, again)]
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(results[1][2], values[4] * 0.9 + values[3], rtol=1e-6)


def test_what_reads_something_else_is_not_copied():
    numbers = inputs(0, ((), Type.F64), ((), Type.F64))
    kind = (3,), Type.F32
    old, new = inputs(2, *[kind] * 3), inputs(2, *[kind] * 3)
    assert copy_update(inputs(9, kind), old, new, numbers) is None
