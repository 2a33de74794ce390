"""Result source: the expressions with which a program's function builds its return value."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterator
from functools import singledispatchmethod
from typing import Any

from ...ops.core.return_types import has_named_fields
from ...tensor.tree import collect_leaves
from ..trace.bindings import (
    Argument, HostScalar, NewTensor, Output, ReturnedArgument, ReturnedConstant, State,
)
from ..trace.host_numbers import FUNCTIONS, Before, Old
from ..trace.plain_values import PLAIN
from .backward_node import attach_history, check_version, make_detached_node, name_node_class
from .new_tensors import (
    CompiledBackward, alias, attach_freed, count_from, require_grad, set_inference, view,
)


class ResultSource:
    """Writes a result as an expression, preceded by statements for tensors that it uses twice.

    `name` assigns names to objects; `argument` returns the expression for an argument's memory;
    `numbers` are the names of numbers that were computed before the run, by id.
    """

    def __init__(
        self, result: Any, name: Callable[[Any], str], argument: Callable[[Argument], str],
        numbers: dict[int, str],
    ) -> None:
        self.numbers = numbers
        self.result, self.name, self.argument = result, name, argument
        self.uses = Counter(map(id, _iterate_new_tensors(result, set())))
        self.statements: list[str] = []
        self.names: dict[int, str] = {}  # of tensors that are reused, by id

    def write(self) -> tuple[list[str], str]:
        """Return the statements and the expression."""
        expression = self.express(self.result)
        return self.statements, expression

    @singledispatchmethod
    def express(self, x: Any) -> str:
        """Return the expression for a part of the result: here a tuple."""
        inner = ", ".join(map(self.express, x))
        if has_named_fields(type(x)):
            return f"{self.name(type(x))}({inner})"
        return f"({inner},)" if x else "()"

    @express.register
    def _(self, x: list) -> str:
        return f"[{', '.join(map(self.express, x))}]"

    @express.register
    def _(self, x: dict) -> str:
        keys = [repr(k) if isinstance(k, PLAIN) else self.name(k) for k in x]
        pairs = zip(keys, map(self.express, x.values()), strict=True)
        return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"

    @express.register
    def _(self, x: HostScalar) -> str:
        operand = self.express(x.left)
        if x.operation == "item":
            return f"{operand}.item()"
        if x.operation in FUNCTIONS:
            more = f", {self.express(x.right)}" if x.operation != "abs" else ""
            return f"{self.name(FUNCTIONS[x.operation])}({operand}{more})"
        return f"({operand} {x.operation} {self.express(x.right)})"

    @express.register
    def _(self, x: Old) -> str:
        owner, key = self.name(x.place.owner), self.name(x.place.key)
        if isinstance(x.place.owner, types.CellType):
            return f"{owner}.cell_contents"
        if x.place.is_attribute:
            return f"{self.name(getattr)}({owner}, {key})"
        return f"{owner}[{key}]"

    @express.register
    def _(self, x: Before) -> str:
        return self.numbers[id(x)]

    @express.register
    def _(self, x: ReturnedArgument) -> str:
        return f"t{x.number}"

    @express.register
    def _(self, x: ReturnedConstant) -> str:
        return repr(x.value) if x.value is None else self.name(x.value)

    @express.register
    def express_tensor(self, x: NewTensor) -> str:
        """Return the expression for a new tensor: its name if it is reused."""
        if id(x) in self.names:
            return self.names[id(x)]
        expression = self.express_new_tensor(x)
        if self.uses[id(x)] == 1:
            return expression
        name = self.names[id(x)] = f"r{len(self.names)}"
        self.statements.append(f"    {name} = {expression}")
        return name

    def express_new_tensor(self, x: NewTensor) -> str:
        """Return the expression that creates a tensor."""
        if x.source is None:
            tensor = f"wrap({self.express_memory(x.memory)})"
        else:
            source, relation = self.express(x.source), self.name(view if x.is_view else alias)
            array = "None" if x.is_whole else self.express_memory(x.memory)
            tensor = f"{relation}({source}, {array})"
        if x.version:
            tensor = f"{self.name(count_from)}({x.version}, {tensor})"
        if x.is_inference is not None:
            tensor = f"{self.name(set_inference)}({tensor}, {x.is_inference})"
        if x.saved:
            tensor = f"{self.name(check_version)}({tensor}, node, {self.name(x.saved)})"
        if x.live is not None:
            return f"{self.name(attach_history)}({tensor}, node, {x.live})"
        if x.requires_grad and not x.is_leaf:
            node = self.name(make_detached_node(name_node_class(CompiledBackward, x.node_name)))
            return f"{self.name(attach_freed)}({tensor}, {node})"
        if x.requires_grad:
            return f"{self.name(require_grad)}({tensor})"
        return tensor

    def express_memory(self, x: Output | Argument | State) -> str:
        """Return the expression for a tensor's array."""
        if isinstance(x, Argument):
            return self.argument(x)
        if isinstance(x, State):
            return self.name(x.array)
        if x.window is not None:
            return f"{self.name(x)}.array(o)"
        array = f"o[{x.number}]"
        return array if x.order == tuple(range(len(x.order))) else f"{array}.transpose({x.order})"


def list_node_names(result: Any) -> dict[int, str]:
    """Return the names of the nodes of outputs that backward may start from, by live index."""
    tensors = _iterate_new_tensors(result, set())
    return {x.live: x.node_name for x in tensors if x.live is not None}


def _iterate_new_tensors(x: Any, seen: set[int]) -> Iterator[NewTensor]:
    """Yield the new tensors in a result, once per use, and their sources."""
    for leaf in collect_leaves((NewTensor, HostScalar), x):
        if isinstance(leaf, HostScalar):
            yield from _iterate_new_tensors((leaf.left, leaf.right), seen)
            continue
        yield leaf
        if id(leaf) not in seen:
            seen.add(id(leaf))
            yield from _iterate_new_tensors(leaf.source, seen)
