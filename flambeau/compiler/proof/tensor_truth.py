"""The truth of a tensor that existed before the call, which `if not self.initialized` reads.

A guard compares it before each call. The call may write to the tensor afterwards, not before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...nn.parameter import Parameter
from ...tensor.tensor import Tensor
from .facts import Facts
from .guards import Test
from .provenance import Aspect, Kind, Provenance


def can_guard_truth(facts: Facts, x: Any) -> bool:
    """Whether a guard can compare the truth of a tensor's only element."""
    return (type(x) in (Tensor, Parameter) and id(x) in facts.existing
            and x._array.__class__ is np.ndarray and x._array.size == 1
            and facts.is_unwritten(x))


def guard_truth(facts: Facts, x: Any) -> bool:
    """Guard the truth of a tensor's only element. Return False if the proof does not hold so far,
    or no guard can compare it."""
    if facts.proof.refusals or not can_guard_truth(facts, x):
        return False
    key = (id(x), Aspect.CONTENT)
    if key not in facts.reads:
        facts.reads[key] = Provenance(Kind.PLAIN)
        facts.tensors.note(x)
        guard = facts.guard(f"{facts.constant(x)}.item()", Test.TRUTH, bool(x._array.item()))
        guard.precedes_writes = True
    return True
