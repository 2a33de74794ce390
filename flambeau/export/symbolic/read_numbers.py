"""Numbers read from tensors and row counts that depend on values: symbolic in a trace, with
different values on its second input."""

from __future__ import annotations

from typing import Any

from ...fx.node import Node
from ...fx.trace_errors import explain
from ...ops.core.aten import aten
from ...ops.core.operator import PUBLIC
from ...tensor.tensor import Tensor
from ..errors import UserError, UserErrorType
from .conditions import SymbolicBool
from .expressions import INFINITE, Expression
from .sizes import SymbolicFloat, SymbolicSize

__all__ = ["is_counted", "lift_constant", "read_number", "read_numbers", "recount", "refuse"]

# Functions whose number of result rows depends on values.
_COUNTED = frozenset(("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"))


def refuse(name: str) -> None:
    """Raise RuntimeError, naming the line, because control flow depends on a tensor's value."""
    error = UserError(
        UserErrorType.ANTI_PATTERN,
        f"Could not guard on data-dependent expression: the program asks for the value of a "
        f"tensor ({name.strip('_')}), which an exported graph does not know"
    )
    explain(error, "Compute with tensors instead: torch.where for a branch, a mask for a "
                   "selection.")
    raise error


def lift_constant(recorder: Any, func: Any, args: Any, kwargs: Any) -> Tensor:
    """Return a tensor of numbers from the program's source: a constant, copied on each call."""
    value: Tensor = func(*args, **kwargs)
    source = recorder.lift_input(value)
    node = recorder.graph.call_function(aten.lift_fresh_copy.default, (source,))
    recorder.note(node)
    recorder.register(value, node)
    recorder.fixed |= {source, node}
    return value


def read_number(recorder: Any, tensor: Tensor) -> Any:
    """Return the value of a tensor's only element, as a symbolic number."""
    value = tensor.item()
    if isinstance(value, complex):
        refuse("item")
    node: Node = recorder.add(aten.item.default, [tensor], {}, value)
    recorder.unbacked.add(node)
    result: Any
    if isinstance(value, bool):
        result = SymbolicBool(value, lambda: node, str(node))
    elif isinstance(value, float):
        result = SymbolicFloat(value, value, lambda: node, True, recorder.table)
    else:
        other = value + recorder.offset
        symbol = recorder.table.add("u", value, other, -INFINITE, unbacked=True)
        result = SymbolicSize(value, other, lambda: node, Expression([(symbol, 1)]), recorder.table)
    node.meta["val"] = result
    return result


def read_numbers(recorder: Any, tensor: Tensor) -> Any:
    """Return a tensor's values as nested lists of symbolic numbers."""
    if not tensor.ndim:
        return read_number(recorder, tensor)
    if isinstance(recorder.shape_of(tensor)[0], SymbolicSize):
        refuse("tolist")
    parts = recorder.record(PUBLIC["torch"]["unbind"], (tensor,), {})
    return [read_numbers(recorder, part) for part in parts]


def is_counted(name: str, target: Any, args: list[Any]) -> bool:
    """Whether the number of rows of a call's result depends on its arguments' values."""
    if name in _COUNTED:
        return True
    if name != "__getitem__" or getattr(target, "__name__", "") != "index.Tensor":
        return False
    return any(isinstance(i, Tensor) and i.dtype.name == "bool" for i in args[1])


def recount(recorder: Any, value: Any, other: Any, kwargs: dict[str, Any]) -> Any:
    """Return the second input's result with a different number of rows than its values give."""
    if not isinstance(value, tuple):
        return _resize(recorder, value, other)
    last = len(value) - 1
    follows = [i == 0 or kwargs.get("as_tuple") or i == last and kwargs.get("return_counts")
               for i in range(len(value))]
    return tuple(_resize(recorder, a, b) if also else b
                 for a, b, also in zip(value, other, follows, strict=True))


def _resize(recorder: Any, value: Tensor, other: Tensor) -> Tensor:
    n, step = len(value), recorder.offset
    rows = n + step if n + step >= 0 else n + 1
    if recorder.table.find(n, rows) is None:
        recorder.table.add("u", n, rows, 0, unbacked=True)
    if not len(other):
        return other.new_zeros((rows, *other.shape[1:]))
    places = PUBLIC["torch"]["arange"](rows) % len(other)
    resized: Tensor = PUBLIC["torch"]["index_select"](other, 0, places)
    return resized
