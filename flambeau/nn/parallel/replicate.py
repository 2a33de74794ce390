"""replicate: copies of a module, one for each GPU. flambeau has no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..module import Module


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Copy a module to GPUs, with gradients that flow back to its own parameters.

    Raises AssertionError: there is no GPU.

    >>> try:
    ...     nn.parallel.replicate(nn.Linear(2, 2), [0, 1])
    ... except AssertionError as error:
    ...     print(error)
    Broadcast function not implemented for CPU tensors
    """
    error = AssertionError("Broadcast function not implemented for CPU tensors")
    error.add_note("Use the module itself, or copy.deepcopy(module).")
    raise error
