"""Guard the layouts, flags and classes of tensors from outside that a step may only ask about.

Programs compare the memory of the tensors they compute with; those that a step merely measures
(`w.numel()`, `zeros_like(w)`, `isinstance(w, Parameter)`) may be resized or change class unseen.
"""

from __future__ import annotations

from collections.abc import Container
from operator import attrgetter
from typing import Any

from ....nn.parameter import is_lazy
from ....tensor.sparse import SparseTensor
from ....tensor.tensor import Tensor
from ....tensor.windows.lazy_window import is_conjugated, is_negated
from ..provenance import NotProvedError

_read_layout = attrgetter(
    "_array.__class__", "_array.shape", "_array.strides", "_array.dtype", "_requires_grad",
    "_node.__class__",
)


class TensorState:
    """What a step may ask about outside tensors besides their values, as it was before the step."""

    def __init__(self) -> None:
        self.classes: dict[int, tuple[Tensor, type]] = {}
        self.layouts: dict[int, tuple[Tensor, tuple]] = {}
        self.bits: dict[int, tuple[Tensor, tuple[bool, bool]]] = {}  # of lazy windows
        self.tensors: list[Tensor] = []
        self.measured: list[Tensor] = []
        self.before: tuple[list[Any], list[Any]] = [], []

    def note(self, tensor: Tensor) -> None:
        """Take a snapshot of a tensor when the step meets it for the first time."""
        key = id(tensor)
        if key in self.classes:
            return
        if isinstance(tensor, SparseTensor):
            raise NotProvedError("it uses sparse tensors")
        self.classes[key] = tensor, type(tensor)
        if not is_lazy(tensor):  # one without memory changes class as it gets some
            self.layouts[key] = tensor, _read_layout(tensor)
            if bits := _read_bits(tensor):
                self.bits[key] = tensor, bits

    def close(self, compared: Container[int]) -> None:
        """Leave out the layouts of tensors whose memory the program compares, by id."""
        layouts = [row for key, row in self.layouts.items() if key not in compared]
        self.tensors = [tensor for tensor, _ in self.classes.values()]
        self.measured = [tensor for tensor, _ in layouts]
        self.before = ([kind for _, kind in self.classes.values()], [row for _, row in layouts])

    def is_same(self) -> bool:
        """Whether nothing has changed since the snapshots."""
        classes, layouts = self.before
        return (
            [*map(type, self.tensors)] == classes and [*map(_read_layout, self.measured)] == layouts
            and all(_read_bits(tensor) == bits for tensor, bits in self.bits.values())
        )


def _read_bits(tensor: Tensor) -> tuple[bool, bool] | None:
    """Return whether a tensor's window conjugates and negates, or None if it does neither."""
    bits = is_conjugated(tensor._array), is_negated(tensor._array)
    return bits if any(bits) else None
