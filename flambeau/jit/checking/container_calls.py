"""Calls that make containers: `tensor.tolist()`, `tuple(...)`, `dict(...)`."""

from __future__ import annotations

import ast

from .conditions import Conditions
from .types import NUMBERS, TENSOR, UNKNOWN, Kind, is_known

__all__ = ["ContainerCalls"]


class ContainerCalls(Conditions):
    """Finds the types of containers that calls make."""

    def _convert_to_list(self, node: ast.Call, method: ast.Attribute, expected: Kind) -> Kind:
        """Return the type of `tensor.tolist()`, which the program must declare."""
        if self.quiet(method.value).kind != TENSOR:
            return UNKNOWN
        if expected == UNKNOWN:
            self.errors.report("tolist", node)
        element = expected
        while element.name == "List":
            element = element.inner[0]
        if is_known(element) and element not in NUMBERS:
            self.errors.report("tolist-element", node, kind=element)
        return expected

    def _refuse_dict_of_union(self, node: ast.Call, expected: Kind) -> None:
        kinds = [kind for kind in expected.inner if kind.name == "Dict"]
        if len(kinds) > 1:
            self.errors.report("union-dict-call", node, annotated=expected,
                               candidates=", ".join(f"`{kind}`" for kind in kinds))

    def _tuple_call(self, node: ast.Call) -> Kind:
        """Return the type of `tuple(...)`, whose size must be known."""
        kinds = [self.value(arg).kind for arg in node.args]
        if len(kinds) != 1:
            self.errors.report("tuple-arguments", node, actual=len(kinds))
            return UNKNOWN
        if kinds[0].name == "List":
            self.errors.report("tuple-size", node)
        return kinds[0] if kinds[0].name == "Tuple" else UNKNOWN
