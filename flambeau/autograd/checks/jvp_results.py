"""What a custom Function's jvp returns: checked against its outputs, which become duals.

Outputs that are views, or inputs written in place, ask the same of their tangents: a later write
to one tensor then reaches the tangents of all that share its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ...tensor.windows.batched_window import is_example
from ..tangents import attach, allocate_memory_tangent, alias_history


class JvpCheck:
    """One call of a Function's jvp.

    tangents: of its arguments, None for those that carry none; versions: theirs before the call.
    """

    def __init__(
        self, context: Any, primals: Sequence[Any], tangents: Sequence[Tensor | None],
        versions: Sequence[int | None],
    ) -> None:
        attributes = context.__dict__
        self.primals, self.tangents, self.versions = primals, tangents, versions
        self.dirty = {id(t) for t in attributes.get("dirty_tensors", ())}
        self.constant = {id(t) for t in attributes.get("non_differentiable", ())}

    def one_per_output(self, pushed: Any, outputs: Sequence[Any]) -> tuple:
        """Return the tangents as a tuple; RuntimeError for another number or other types."""
        tangents = tuple(pushed) if isinstance(pushed, (tuple, list)) else (pushed,)
        if len(tangents) != len(outputs):
            raise RuntimeError("Function's jvp returned an invalid number of forward gradients "
                               f"(expected {len(outputs)} but got {len(tangents)})")
        for i, (y, t) in enumerate(zip(outputs, tangents, strict=True)):
            if t is None:
                continue
            if not isinstance(t, Tensor):
                raise RuntimeError(
                    f"expected Variable or None (got {type(t).__name__}) for grad output {i}.")
            if not self._is_differentiable(y):
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {i}, but  the corresponding "
                    "forward output is not a differentiable Tensor.You should return None at that "
                    "position instead.")
            if t.shape != y.shape:
                raise RuntimeError(
                    "Trying to set a forward gradient that has a different size than that of the "
                    "original Tensor, this is not supported. Tensor is of size "
                    f"{list(y.shape)} while the given forward gradient is of size {list(t.shape)}.")
        return tangents

    def _is_differentiable(self, y: Any) -> bool:
        return isinstance(y, Tensor) and y._array.dtype.kind in "fcV" \
            and id(y) not in self.constant and id(y._base) not in self.constant

    def as_dual(self, y: Any, t: Tensor | None, level: int, args: Sequence[Any]) -> Any:
        """Return an output with its tangent; an input written in place is the argument itself."""
        if t is None or not isinstance(y, Tensor):
            return y
        number = next((i for i, x in enumerate(self.primals) if x is y), None)
        if number is not None and id(y) in self.dirty:
            return self._written(args[number], y, number, t, level)
        if y._base is not None:
            self._check_view(y, t)
        dual = alias_history(y)
        attach(dual, level, y, t)
        return dual

    def _written(self, target: Tensor, primal: Tensor, number: int, t: Tensor,
                 level: int) -> Tensor:
        own = self.tangents[number]
        if own is None:
            allocate_memory_tangent(target, t, level).copy_(t)
        elif get_version(t) == self.versions[number]:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. "
                "If the forward is modifying an input inplace, then the jvp function must modify "
                "the corresponding gradient inplace.")
        elif t is not own:
            raise RuntimeError(
                "An inplace custom Function is not returning the forward mode gradients as-is. If "
                "the forward is modifying an input inplace, then the jvp function must modify the "
                "gradient inplace and return it as-is.")
        target._node, target._requires_grad = primal._node, primal._requires_grad
        target._tracked = primal._tracked
        return target

    def _check_view(self, y: Tensor, t: Tensor) -> None:
        """RuntimeError if `y` is a view of an argument but `t` not one of its tangent."""
        for x, own in zip(self.primals, self.tangents, strict=True):
            if own is None or x._counter is not y._counter or is_example(t._array):
                continue
            if t._base is None:
                raise RuntimeError(
                    "A custom Function's forward is returning a view (or an input as-is) but the "
                    "jvp is not returning a view.")
            if t._counter is not own._counter:
                of = "the given grad input" if own._base is None else \
                    "the same base as the given grad input"
                raise RuntimeError("A custom Function is returning a view but the jvp is not "
                                   f"returning a view of {of}.")
