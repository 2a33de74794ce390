"""Which functions an archived graph may call, by name. Loading calls nothing else from a file."""

from __future__ import annotations

import operator
from typing import Any

from ..._higher_order_ops.associative_scan import associative_scan_op
from ..._higher_order_ops.cond import cond_op
from ..._higher_order_ops.map import map_impl
from ..._higher_order_ops.scan import scan_op
from ..._higher_order_ops.while_loop import while_loop_op
from ..._higher_order_ops.wrap import wrap_with_set_grad_enabled
from ...fx.node import Node
from ...fx.qualified_names import index_public_names, qualified_name
from ...ops.core import aten
from ...ops.core.operator import PUBLIC
from ..errors import ArchiveError

__all__ = ["find_function", "find_name", "require_identifier"]

_OPERATORS = {f"operator.{name}": getattr(operator, name) for name in (
    "add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "neg", "getitem", "setitem", "eq",
    "ne", "lt", "le", "gt", "ge")}
_CONTROL_FLOW = {f"torch.ops.higher_order.{f.__name__}": f
                 for f in (associative_scan_op, cond_op, map_impl, scan_op, while_loop_op,
                           wrap_with_set_grad_enabled)}
# Operators that touch more than their tensor arguments: files, the network.
_REFUSED = frozenset(("from_file", "load", "save", "hub"))


def find_name(node: Node) -> str:
    """Return the name of a node's function. Raise NotImplementedError if archives lack one."""
    target: Any = node.target
    if isinstance(target, aten.Overload):
        return f"torch.ops.{target}"
    if target in _CONTROL_FLOW.values():
        return f"torch.ops.higher_order.{target.__name__}"
    name = next((n for n, f in _OPERATORS.items() if f is target), None) or qualified_name(target)
    if name not in _OPERATORS and name not in _list_functions():
        raise NotImplementedError(f"torch.export.save: a call of {name}")
    return name


def find_function(name: str) -> Any:
    """Return the function of this name. Raise ArchiveError if graphs may not call it."""
    function = _OPERATORS.get(name) or _CONTROL_FLOW.get(name)
    if function is not None:
        return function
    parts = name.split(".")
    if parts[:3] == ["torch", "ops", "aten"] and len(parts) == 5:
        packet = getattr(aten.aten, require_identifier(parts[3]))
        if parts[3] in _REFUSED or parts[3].startswith("__"):
            raise ArchiveError(f"torch.export.load: a call of {name}")
        return getattr(packet, require_identifier(parts[4]))
    function = _list_functions().get(name)
    if function is None:
        raise ArchiveError(f"torch.export.load: a call of {name}, which is no operator")
    return function


def require_identifier(name: Any) -> str:
    """Return a name that generated code will contain. Raise ArchiveError if no identifier."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ArchiveError(f"torch.export.load: {name!r} is no name")
    return name


def _list_functions() -> dict[str, Any]:
    """Return the operators that archives may call, by public path."""
    operators = {f for space in PUBLIC.values() for f in space.values()}
    return {path: f for f, path in index_public_names().items()
            if not isinstance(f, type) and f in operators
            and path.rpartition(".")[2] not in _REFUSED} | {
        f"torch.Tensor.{name}": f for name, f in PUBLIC.get("Tensor", {}).items()
    }
