"""Products of matrices, as sums over letters: every letter may be cut.

A cut of a letter of the result cuts the operands that have it; a cut of a summed letter makes the
result a partial sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..placement_types import Partial, Placement, Replicate, Shard
from ..propagation import Operation, Rule, Strategy, partial_sum
from ..spec import DTensorSpec

_LETTERS = "abcdefghijkl"


def contract(
    operation: Operation, operands: list[str], result: str, sizes: list[DTensorSpec] | None = None
) -> Iterator[Strategy]:
    """Yield the strategies of a product whose operands and result have these letters.

    Operands after those named are added to the result and broadcast to it.
    """
    specs = operation.inputs if sizes is None else sizes
    added = operation.inputs[len(operands):]
    for letter in dict.fromkeys("".join(operands)):
        inputs: list[Placement] = []
        for letters, spec in zip(operands, specs, strict=False):
            dim = letters.find(letter)
            is_cut = dim >= 0 and not (spec.shape[dim] == 1 and letter in result)
            inputs.append(Shard(dim) if is_cut else Replicate())
        if letter not in result:
            yield Strategy(Partial(), (*inputs, *(Partial() for _ in added)))
        else:
            dim = result.index(letter)
            yield Strategy(Shard(dim), (*inputs, *(_cut_added(s, dim, len(result)) for s in added)))
    yield from _pass_sums(operation, len(operands))


def _cut_added(spec: DTensorSpec, dim: int, ndim: int) -> Placement:
    own = dim - ndim + spec.ndim
    return Shard(own) if own >= 0 and spec.shape[own] != 1 else Replicate()


def _pass_sums(operation: Operation, factors: int) -> Iterator[Strategy]:
    """Yield the strategies that pass one partial factor on."""
    for i, spec in enumerate(operation.inputs[:factors]):
        placement = spec.placements[operation.axis]
        if partial_sum(placement):
            inputs: list[Placement] = [Replicate()] * factors
            inputs[i] = placement
            yield Strategy(placement, (*inputs, *(placement for _ in operation.inputs[factors:])))


def _plain(*equations: str) -> Rule:
    """Return the rule of a product with a fixed equation, such as "ab,bc->ac"."""
    (equation,) = equations
    operands, result = equation.split("->")

    def strategies(operation: Operation) -> Iterator[Strategy]:
        return contract(operation, operands.split(","), result)

    return Rule(strategies, follows=False, accepts_empty=True)


def _sum_first(equation: str) -> Rule:
    """Return the rule of a product to which the first argument is added."""
    operands, result = equation.split("->")

    def strategies(operation: Operation) -> Iterator[Strategy]:
        inputs = operation.inputs
        turned = Operation(operation.name, (), {}, [*inputs[1:], inputs[0]], operation.packet,
                           operation.axis)
        for strategy in contract(turned, operands.split(","), result):
            *factors, added = strategy.inputs
            yield Strategy(strategy.outputs, (added, *factors))

    return Rule(strategies, follows=False, accepts_empty=True)


def _matmul(operation: Operation) -> Iterator[Strategy]:
    x, w = operation.inputs
    batch = _LETTERS[: max(x.ndim, w.ndim) - 2] if max(x.ndim, w.ndim) > 2 else ""
    left = batch[len(batch) - max(x.ndim - 2, 0):] + ("mk" if x.ndim > 1 else "k")
    right = batch[len(batch) - max(w.ndim - 2, 0):] + ("kn" if w.ndim > 1 else "k")
    result = batch + ("m" if x.ndim > 1 else "") + ("n" if w.ndim > 1 else "")
    return contract(operation, [left, right], result)


def _linear(operation: Operation) -> Iterator[Strategy]:
    rows = _LETTERS[: operation.inputs[0].ndim - 1]
    return contract(operation, [rows + "x", "yx"], rows + "y")


def _rows_product(operation: Operation) -> Iterator[Strategy]:
    """Yield the strategies of a weight's gradient: the product over all rows of g and x."""
    rows = _LETTERS[: operation.inputs[0].ndim - 1]
    return contract(operation, [rows + "y", rows + "x"], "yx")


RULES: dict[str, Rule] = {
    "mm": _plain("mk,kn->mn"), "bmm": _plain("bmk,bkn->bmn"), "mv": _plain("mk,k->m"),
    "dot": _plain("k,k->"), "vdot": _plain("k,k->"), "outer": _plain("m,n->mn"),
    "addmm": _sum_first("mk,kn->mn"), "baddbmm": _sum_first("bmk,bkn->bmn"),
    "addmv": _sum_first("mk,k->m"),
    "matmul": Rule(_matmul, follows=False, accepts_empty=True),
    "linear": Rule(_linear, follows=False, accepts_empty=True),
    "_rows_product": Rule(_rows_product, follows=False, accepts_empty=True),
}
