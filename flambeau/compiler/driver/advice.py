"""Advice: what users can do about each reason that keeps a step eager."""

from __future__ import annotations


def advise(reason: str) -> str:
    """Return advice for a reason to stay eager, or "" if there is none."""
    if ("reads" in reason and "Python" in reason) or "depends on a tensor's values" in reason:
        return "Return the tensor from the step and read it outside"
    if "one call runs" in reason or "in some calls only" in reason or "at one" in reason:
        return ("Which operators run must not depend on values: use torch.where, or decide outside "
                "of the step")
    if "Python's" in reason:
        return "Do that outside of the step, or keep the number in a tensor"
    if "is another at each call" in reason:
        return "Pass what changes as a tensor, or keep its name out of the step"
    if "another identity" in reason:
        return "Keep what is carried over in a tensor that stays, with copy_(), or hand it through"
    if "other arguments" in reason:
        return "Pass numbers that change from call to call as tensors"
    return ""
