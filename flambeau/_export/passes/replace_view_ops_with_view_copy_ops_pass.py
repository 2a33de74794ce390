"""A pass for backends without views: view operators become operators that copy."""

from __future__ import annotations

from typing import Any

from ...library import OpOverload
from ...ops.core.aten import aten
from ..pass_base import _ExportPassBaseDeprecatedDoNotUse

__all__ = ["ReplaceViewOpsWithViewCopyOpsPass"]


def is_view_op(schema: Any) -> bool:
    """Return whether an operator's result is a view of its first argument."""
    if not schema.arguments:
        return False
    alias = schema.arguments[0].alias_info
    return alias is not None and not alias.is_write


def get_view_copy_of_view_op(schema: Any) -> Any:
    """Return the copying overload of a view operator, None for other operators.

    Raises RuntimeError for a view operator that has none.
    """
    if not is_view_op(schema) or not schema.name.startswith("aten::"):
        return None
    name, overload = schema.name.removeprefix("aten::"), schema.overload_name or "default"
    packet = getattr(aten, f"{name}_copy", None)
    if packet is None or overload not in packet.overloads():
        raise RuntimeError(f"{schema.name} is missing a view_copy variant")
    return getattr(packet, overload)


class ReplaceViewOpsWithViewCopyOpsPass(_ExportPassBaseDeprecatedDoNotUse):
    """Replaces `view` by `view_copy`, `t` by `t_copy`, and so on."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        """Call an operator's copying variant, if it has one."""
        if op is aten._unsafe_view.default:
            op = aten.view_copy.default
        elif isinstance(op, OpOverload):
            overload: Any = op
            op = get_view_copy_of_view_op(overload._schema) or op
        return super().call_operator(op, args, kwargs, meta)
