"""Reasons why a step stays eager: texts that carry advice on how to change the step."""

from __future__ import annotations

from enum import Enum


class Advice(Enum):
    """What users can change in a step, so that it can be compiled."""

    READ_OUTSIDE = "Return the tensor from the step and read its value outside"
    DECIDE_OUTSIDE = ("Which operators run must not depend on values: use torch.where, or decide "
                      "outside the step")
    CHANGE_OUTSIDE = "Make this change outside the step, or store a tensor instead"
    PASS_TENSOR = "Pass values that change from call to call as tensors"
    KEEP_IN_PLACE = ("Write state that one call leaves to the next into one tensor with copy_(), "
                     "or pass it as an argument and return it")
    COPY_DATA = "Write into its memory instead: p.data.copy_(new), or p.data -= step"


class Reason(str):
    """A reason that carries advice. Reasons that are plain strings carry none."""

    __slots__ = ("advice",)
    advice: Advice

    def __new__(cls, text: str, advice: Advice) -> Reason:
        reason = super().__new__(cls, text)
        reason.advice = advice
        return reason

    def __add__(self, more: str) -> Reason:
        return Reason(str.__add__(self, more), self.advice)


def advise(reason: str) -> str:
    """Return the advice for a reason, or "" if there is none."""
    return reason.advice.value if isinstance(reason, Reason) else ""
