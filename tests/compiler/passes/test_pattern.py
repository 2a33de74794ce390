"""The pattern matcher of rewrite rules, and the simplifications declared with it."""

from __future__ import annotations

import math

import pytest

from flambeau.compiler.ir.graph import Graph, Node, Op, apply, constant, permute, reduce, reshape
from flambeau.compiler.passes.pattern import Rule, RuleSet, capture, literal, op, rule, scalar
from flambeau.compiler.passes.simplify import simplify
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

x, y = capture("x"), capture("y")


def leaf(*shape: int, type: Type = Type.F32) -> Node:
    return Node(Op.INPUT, (), shape, type, {"slot": 0})


def simplified(node: Node) -> Node:
    (result,) = simplify(Graph([], [], [node], [])).outputs
    return result


def test_captures_are_passed_by_name() -> None:
    a, b = leaf(2), leaf(2)
    rules = RuleSet(Rule(scalar.SUB(x, scalar.NEG(y)), lambda node, x, y: apply(Scalar.ADD, x, y)))
    result = rules.apply(apply(Scalar.SUB, a, apply(Scalar.NEG, b)))
    assert (result.operation, result.inputs) == (Scalar.ADD, (a, b))
    other = apply(Scalar.SUB, a, b)
    assert rules.apply(other) is other


def test_one_name_stands_for_one_node() -> None:
    a, b = leaf(2), leaf(2)
    rules = RuleSet(Rule(scalar.MAXIMUM(x, x), lambda node, x: x))
    assert rules.apply(apply(Scalar.MAXIMUM, a, a)) is a
    other = apply(Scalar.MAXIMUM, a, b)
    assert rules.apply(other) is other


def test_commutative_patterns_match_either_order() -> None:
    a, unit = leaf(2), constant(1.0, Type.F32, (2,))
    for commutes, matched in ((True, a), (False, None)):
        rules = RuleSet(Rule(scalar.MUL(x, literal(1), commutes=commutes), lambda node, x: x))
        assert rules.apply(apply(Scalar.MUL, a, unit)) is a
        product = apply(Scalar.MUL, unit, a)
        assert rules.apply(product) is (matched or product)


def test_the_first_rule_that_applies_wins() -> None:
    a, tried = leaf(2), []

    def note(name: str, result: Node | None) -> Rule:
        return Rule(scalar.NEG(x), lambda node, x: (tried.append(name), result)[1])

    rules = RuleSet(note("first", None), note("second", a), note("third", None))
    assert rules.apply(apply(Scalar.NEG, a)) is a
    assert tried == ["first", "second"]


def test_rules_of_other_operands_are_not_tried() -> None:
    def fail(node: Node) -> bool:
        raise AssertionError("tried")

    rules = RuleSet(Rule(op.RESHAPE(capture("x", Op.PERMUTE)), lambda node, x: fail(node)))
    node = reshape(leaf(2, 3), (6,))
    assert rules.apply(node) is node
    with pytest.raises(AssertionError, match="tried"):
        rules.apply(reshape(permute(leaf(2, 3), (1, 0)), (6,)))


def test_rules_repeat_on_their_results_where_asked() -> None:
    a = leaf(2)
    nested = apply(Scalar.NEG, apply(Scalar.NEG, apply(Scalar.NEG, a)))
    drop = Rule(scalar.NEG(x), lambda node, x: x)
    assert RuleSet(drop).apply(nested) is nested.inputs[0]
    assert RuleSet(drop, repeats=True).apply(nested) is a


def test_a_rule_takes_what_its_pattern_captures() -> None:
    with pytest.raises(TypeError, match=r"_swap must take \(node, x, y\)"):
        @rule(scalar.ADD(x, y))
        def _swap(node: Node, y: Node, x: Node) -> Node:
            return node


@pytest.mark.parametrize(("type", "zero", "is_dropped"), [
    (Type.F32, -0.0, True), (Type.F32, 0.0, False), (Type.I64, 0, True),
])
def test_only_zeros_that_change_nothing_are_dropped(
    type: Type, zero: float, is_dropped: bool
) -> None:
    a = leaf(2, type=type)
    for node in (apply(Scalar.ADD, a, constant(zero, type, (2,))),
                 apply(Scalar.ADD, constant(zero, type, (1,)), a)):
        assert (simplified(node) is a) is is_dropped
    assert math.copysign(1.0, -0.0 + 0.0) == 1.0  # why 0.0 stays


def test_simplifications() -> None:
    a = leaf(2, 1, 3)
    assert simplified(reshape(reshape(a, (6,)), (2, 1, 3))) is a
    assert simplified(permute(permute(a, (2, 0, 1)), (1, 2, 0))) is a
    assert simplified(permute(a, (1, 0, 2))).op is Op.RESHAPE
    assert simplified(reduce(a, ReduceOp.MAXIMUM, (1,))) is a
    single = simplified(reduce(a, ReduceOp.SUM, (1,)))  # -0.0 becomes 0.0
    assert (single.operation, single.inputs[0], single.inputs[1].value) == (Scalar.ADD, a, 0.0)
    total = simplified(reduce(reduce(a, ReduceOp.SUM, (2,)), ReduceOp.SUM, (0, 1)))
    assert (total.op, total.axes, total.inputs) == (Op.REDUCE, (0, 2), (a,))
    choice = apply(Scalar.WHERE, leaf(2, 1, 3, type=Type.BOOL), a, a)
    assert simplified(choice) is a
