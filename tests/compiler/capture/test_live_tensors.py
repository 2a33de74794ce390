"""Which tensors a recorded call meets."""

from __future__ import annotations

import flambeau as torch
from flambeau.compiler.capture.live_tensors import live_tensors


class Kind(torch.Tensor):
    """A class of the user's."""


def is_met(tensor: torch.Tensor) -> bool:
    return any(other is tensor for other in live_tensors())


def test_tensors_and_their_subclasses_are_met() -> None:
    assert is_met(torch.ones(2))
    assert is_met(torch.ones(2).as_subclass(Kind))


def test_a_tensor_under_construction_is_not() -> None:
    bare = object.__new__(torch.Tensor)
    assert not is_met(bare)
