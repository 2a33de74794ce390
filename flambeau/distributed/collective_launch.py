"""launch: how every collective starts: checks, the comparison of debug mode, the group's thread.

Tensors are handed to engines as contiguous arrays. One that is not contiguous travels as a copy.
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
    "Destination", "launch", "recorder", "refuse_compilation", "require_tensor", "require_tensors",
    "source_array",
]


def require_tensor(value: Any, name: str) -> None:
    """TypeError for an argument that is no tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def require_tensors(values: Any, name: str) -> None:
    """TypeError for an argument that is no list of tensors."""
    if not isinstance(values, (list, tuple)) or [x for x in values if not isinstance(x, Tensor)]:
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} with elements of type "
            f"{[type(x) for x in values] if isinstance(values, (list, tuple)) else '?'}."
        )


def source_array(tensor: Tensor) -> Array:
    """A tensor's elements as a contiguous array: its own memory where it is contiguous."""
    array = tensor._array
    if array.__class__ is MetaArray:
        raise RuntimeError("torch.distributed: a meta tensor has no values to communicate")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


class Destination:
    """A tensor that a collective fills: `array` is its memory, or stands for it until `settle`."""

    __slots__ = ("_tensor", "array")

    def __init__(self, tensor: Tensor) -> None:
        self.array, self._tensor = source_array(tensor), tensor

    def settle(self) -> None:
        """Copy what arrived into a tensor that is not contiguous."""
        if self.array is not self._tensor._array:
            np.copyto(self._tensor._array, self.array)


def recorder() -> Any:
    """What records this call for the compiler; None where no call is being recorded."""
    if "flambeau.compiler.capture.capture" not in sys.modules:
        return None
    from ..compiler.capture import record_exchange

    return record_exchange.recorder()


def refuse_compilation(name: str) -> None:
    """Keep a step that communicates eager: a program would be checked by communicating again."""
    capture = sys.modules.get("flambeau.compiler.capture.capture")  # where somebody compiles
    if capture is not None:
        capture.refuse(f"it communicates with other processes ({name})")


def launch(
    group: ProcessGroup, name: str, call: Callable[[], Any], tensors: Sequence[Tensor],
    written: Sequence[Tensor], async_op: bool, outputs: Any = None,
) -> Work | None:
    """Run `call`, a collective `name` of `tensors`; returns a Work with `async_op`.

    `written` are counted as written to now: nobody may use their values before the end anyway.
    """
    if group.size() > 1:
        refuse_compilation(name)
        if group.is_detailed:
            call = _compared(group, name, tensors, call)
    for tensor in written:
        bump(tensor)
    if not async_op:
        return group._communicator.run(call)
    return group._communicator.run(call, True, list(written) if outputs is None else outputs)


def _compared(
    group: ProcessGroup, name: str, tensors: Sequence[Tensor], call: Callable[[], Any]
) -> Callable[[], Any]:
    """`call`, once all ranks were seen to run the same collective on alike tensors."""
    number = next(group._sequence)

    def compared() -> None:
        check_agreement(group, number, name, tensors)
        call()

    return compared
