"""parallel_apply: call modules, each on its GPU, at the same time. flambeau has no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..module import Module


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its inputs on its GPU, and return the results.

    Raises AssertionError where the counts differ, else RuntimeError: there is no GPU.

    >>> try:
    ...     nn.parallel.parallel_apply([nn.Identity()], [torch.ones(2)])
    ... except RuntimeError as error:
    ...     print(error)
    Cannot access accelerator device when none is available.
    """
    for name, values in {"inputs": inputs, "kwargs_tup": kwargs_tup, "devices": devices}.items():
        if values is not None and len(values) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {name} "
                f"{len(values)}"
            )
    error = RuntimeError("Cannot access accelerator device when none is available.")
    error.add_note("Call the module itself: flambeau computes on the CPU, with all its cores.")
    raise error
