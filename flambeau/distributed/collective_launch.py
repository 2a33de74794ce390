"""launch: the common start of every collective: checks, debug-mode comparison, group thread.

Engines receive contiguous arrays. A noncontiguous tensor is sent as a copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.inplace import bump
from ..tensor import Tensor
from ..tensor.meta import MetaArray
from .engines.engine import Array
from .fingerprint import check_agreement
from .process_group import ProcessGroup
from .work import Work

__all__ = [
    "Destination", "get_recorder", "launch", "refuse_compilation", "require_tensor",
    "require_tensors", "source_array",
]


def require_tensor(value: Any, name: str) -> None:
    """Raise TypeError if an argument is not a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def require_tensors(values: Any, name: str) -> None:
    """Raise TypeError if an argument is not a list of tensors."""
    if not isinstance(values, (list, tuple)) or [x for x in values if not isinstance(x, Tensor)]:
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} with elements of type "
            f"{[type(x) for x in values] if isinstance(values, (list, tuple)) else '?'}."
        )


def source_array(tensor: Tensor) -> Array:
    """Return a tensor's elements as a contiguous array; a view if the tensor is contiguous."""
    array = tensor._array
    if array.__class__ is MetaArray:
        raise RuntimeError("torch.distributed: a meta tensor has no values to communicate")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


class Destination:
    """A tensor that a collective fills. `array` is its memory, or a copy until `settle`."""

    __slots__ = ("_tensor", "array")

    def __init__(self, tensor: Tensor) -> None:
        self.array, self._tensor = source_array(tensor), tensor

    def settle(self) -> None:
        """Copy the result into the tensor if it is not contiguous."""
        if self.array is not self._tensor._array:
            np.copyto(self._tensor._array, self.array)


def get_recorder() -> Any:
    """Return the compiler's recorder of the current call, or None when nothing is recorded."""
    if "flambeau.compiler.capture.capture" not in sys.modules:
        return None
    from ..compiler.capture import record_exchange

    return record_exchange.get_active_recorder()


def refuse_compilation(name: str) -> None:
    """Keep a communicating step eager: verifying a compiled program would communicate again."""
    capture = sys.modules.get("flambeau.compiler.capture.capture")  # None: nothing compiles
    if capture is not None:
        capture.refuse(f"it communicates with other processes ({name})")


def launch(
    group: ProcessGroup, name: str, call: Callable[[], Any], tensors: Sequence[Tensor],
    written: Sequence[Tensor], async_op: bool, outputs: Any = None,
) -> Work | None:
    """Run `call`, the collective `name` on `tensors`. Return a Work if `async_op`.

    Bumps the versions of `written` right away: their values are undefined until the call ends.
    """
    if group.size() > 1:
        refuse_compilation(name)
        if group.is_detailed:
            call = _compare_first(group, name, tensors, call)
    for tensor in written:
        bump(tensor)
    if not async_op:
        return group._communicator.run(call)
    return group._communicator.run(call, True, list(written) if outputs is None else outputs)


def _compare_first(
    group: ProcessGroup, name: str, tensors: Sequence[Tensor], call: Callable[[], Any]
) -> Callable[[], Any]:
    """Wrap `call` to first check that all ranks run the same collective on matching tensors."""
    number = next(group._sequence)

    def compared() -> None:
        check_agreement(group, number, name, tensors)
        call()

    return compared
