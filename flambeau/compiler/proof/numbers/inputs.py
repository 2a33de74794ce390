"""Offer outside numbers to operators as inputs of the program, instead of guarding their values.

An opcode that hands a number with a symbol to an operator offers it. If the recorder of that very
operator takes the number, its value need not be guarded. A number that neither the call writes nor
earlier calls saw change stays a constant after all, because constants make faster programs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...trace.number_inputs import NumberInput, is_exact_float
from ...trace.plain_values import are_same_plain
from ..facts import Facts
from ..provenance import Kind, NotProvedError, Provenance, is_number
from ..shadow_frame import CallState, Offer, ShadowFrame
from .decisions import compute_before, conclude_numbers


def offer_numbers(facts: Facts, call: CallState, operands: Sequence[Provenance]) -> None:
    """Offer the numbers with symbols among the operands of a call to the operators that it runs,
    and mark the guards behind the other operands as needed."""
    numbers = [p for p in operands if _is_offerable(p)]
    if numbers:
        call.offer = facts.offer = Offer(numbers)
        facts.unsettled.append(call.offer)
    facts.need(*(p for p in operands if p not in numbers))


def _is_offerable(p: Provenance) -> bool:
    return (p.symbol is not None and is_number(p.value) and p.kind is Kind.PLAIN
            and not p.tainted)


def offers_number(facts: Facts) -> bool:
    """Whether the running opcode offers numbers to operators."""
    return facts.offer is not None and facts.proof.holds


def take_number(facts: Facts, shadow: ShadowFrame | None, args: tuple
                ) -> tuple[int, NumberInput] | None:
    """Return the position of an offered number among an operator's arguments, and its input; None
    if there is none, or several that are equal. `shadow`: that of the operator's caller, whose
    opcode must be the one that offers the number."""
    offer = facts.offer
    if offer is None or shadow is None or shadow.call is None or shadow.call.offer is not offer:
        return None
    for p in offer.numbers:
        positions = [i for i, x in enumerate(args)
                     if is_number(x) and are_same_plain(x, p.value)]
        if len(positions) == 1 and p.symbol is not None and is_exact_float(p.value):
            offer.accepted.append(p)
            value = float.fromhex(float(p.value).hex())  # an object that nothing else holds
            number = NumberInput(value, p.symbol.source)
            facts.number_inputs.append((number, p))
            return positions[0], number
    return None


def settle_offer(facts: Facts, offer: Offer) -> None:
    """Guard the numbers of an offer that no operator took."""
    facts.offer = None
    facts.unsettled.remove(offer)
    facts.need(*(p for p in offer.numbers if p not in offer.accepted))


def conclude(facts: Facts, is_entered: bool) -> str:
    """Decide which inputs vary, guard the values of the others, and conclude all decisions. Return
    a problem if something unknown changed the numbers behind them, else "". `is_entered`: the step
    was watched."""
    return _conclude_inputs(facts) or conclude_numbers(facts, is_entered)


def _conclude_inputs(facts: Facts) -> str:
    try:
        for offer in facts.unsettled:
            facts.need(*offer.numbers)  # an exception ended the call
        for number, p in facts.number_inputs:
            if number.is_fixed or not _varies(facts, p):
                facts.need(p)
                continue
            compute_before(facts, p)
            number.varies = True
    except NotProvedError as error:
        return error.reason
    return ""


def _varies(facts: Facts, p: Provenance) -> bool:
    """Whether the call writes a number that this one depends on, or earlier calls saw it change."""
    assert p.symbol is not None
    return any(read.path in facts.written or read.path in facts.counters
               or facts.proof.identify_path(read.path) in facts.varying for read in p.symbol.reads)
