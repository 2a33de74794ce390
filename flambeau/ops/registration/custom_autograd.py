"""The autograd Function of a custom operator: its kernel as forward, the user's rule as backward.

The Function takes the call's tensors in a row, those in lists included, and the call itself, which
groups values, needs and gradients as the operator's arguments and results are grouped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...autograd.function import Function
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves

if TYPE_CHECKING:
    from .custom_operators import CustomOperator


class RecordedCall:
    """One call of an operator: where its tensors stand among its arguments and results.

    `passed`: how many arguments the program passed; defaults need no gradient.
    """

    def __init__(self, args: tuple, kwargs: dict[str, Any], passed: int) -> None:
        self.passed = passed
        self.tensors = collect_leaves(Tensor, args)
        self.pattern = tuple([_blank(value) for value in args])
        self.kwargs = kwargs
        self.results: Any = _TENSOR

    def group(self, values: tuple, absent: Any = None, keeps_others: bool = False) -> tuple:
        """Arrange one value per tensor as the arguments are arranged. In place of the others stand
        themselves, or `absent`."""
        rest = iter(values)
        return tuple([_fill(part, rest, absent, keeps_others) for part in self.pattern])

    def flatten_results(self, y: Any) -> Any:
        """Note how the results are arranged, and return them as a Function returns them."""
        self.results = _blank(y)
        if isinstance(y, Tensor):
            return y
        return tuple(collect_leaves(Tensor, y))

    def group_gradients(self, g: tuple, is_list: bool) -> tuple:
        """Arrange the results' gradients as the results are arranged: one value for each.

        `is_list`: the only result is a list, which some callers see as a tuple.
        """
        grouped = _fill(self.results, iter(g), None, False)
        if is_list:
            return (list(grouped),)
        return grouped if isinstance(grouped, tuple) else (grouped,)

    def restore_results(self, y: Any) -> Any:
        """Arrange a Function's results as the kernel arranged its own."""
        return _fill(self.results, iter(y if isinstance(y, tuple) else (y,)), None, True)

    def flatten_gradients(self, gradients: Any, name: str) -> list[Any]:
        """Return the gradient of each tensor. RuntimeError unless there is one per argument."""
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        if len(gradients) == self.passed:
            gradients = (*gradients, *[None] * (len(self.pattern) - self.passed))
        if len(gradients) != len(self.pattern):
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected "
                f"{len(self.pattern)}, got {len(gradients)})")
        result: list[Any] = []
        for part, g in zip(self.pattern, gradients, strict=True):
            if part is _TENSOR:
                result.append(g)
            elif isinstance(part, list):
                places = [i for i, place in enumerate(part) if place is _TENSOR]
                result.extend([None] * len(places) if g is None else [g[i] for i in places])
        return result


_TENSOR = type("TensorPlace", (), {"__repr__": lambda self: "<tensor>"})()


def _blank(value: Any) -> Any:
    """Return a value with a mark in place of each tensor; sequences without tensors stay."""
    if isinstance(value, Tensor):
        return _TENSOR
    if isinstance(value, (list, tuple)) and collect_leaves(Tensor, value):
        parts = [_blank(part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def _fill(pattern: Any, values: Iterator[Any], absent: Any, keeps_others: bool) -> Any:
    """Replace the marks of a pattern by values in order."""
    if pattern is _TENSOR:
        return next(values)
    if isinstance(pattern, (list, tuple)) and _has_mark(pattern):
        parts = [_fill(part, values, absent, keeps_others) for part in pattern]
        return parts if isinstance(pattern, list) else tuple(parts)
    return pattern if keeps_others else absent


def _has_mark(pattern: Any) -> bool:
    return pattern is _TENSOR or (
        isinstance(pattern, (list, tuple)) and any(_has_mark(part) for part in pattern))


def create_function(operator: CustomOperator) -> type[Function]:
    """Make an operator's Function. It takes a RecordedCall and the call's tensors."""

    returns = operator._schema.returns
    is_list = len(returns) == 1 and returns[0].kind.endswith("]")

    def forward(ctx: Any, call: RecordedCall, *tensors: Tensor) -> Any:
        detached = call.group(tuple([t.detach() for t in tensors]), keeps_others=True)
        y = operator.compute(detached, call.kwargs)
        ctx.recorded_call = call
        result = call.flatten_results(y)
        if operator.setup_context is not None:
            options = {"keyword_only_inputs": call.kwargs} if call.kwargs else {}
            operator.setup_context(
                ctx=ctx, inputs=call.group(tensors, keeps_others=True), output=y, **options)
        return result

    def backward(ctx: Any, *g: Any) -> Any:
        if operator.backward is None:
            raise RuntimeError(
                f"Trying to backward through {operator} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        call, needs = ctx.recorded_call, ctx.needs_input_grad
        ctx.needs_input_grad = call.group(needs[1:], absent=False)
        try:
            result = operator.backward(ctx, *call.group_gradients(g, is_list))
        finally:
            ctx.needs_input_grad = needs
        return (None, *call.flatten_gradients(result, name))

    name = f"GeneratedBackwardFor_{operator.namespace}_{operator._opname}_{operator._overloadname}"
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (Function,), body)
