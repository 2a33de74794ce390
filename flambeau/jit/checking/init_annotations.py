"""Annotations in a module's `__init__` whose value does not show the type: a warning."""

from __future__ import annotations

import ast
import inspect
import textwrap

from ...native.foundation.user_frames import warn
from .source import is_library

__all__ = ["warn_about_annotations"]

_WARNING = ("The TorchScript type system doesn't support instance-level annotations on empty "
            "non-base types in `__init__`. Instead, either 1) use a type annotation in the class "
            "body, or 2) wrap the type in `torch.jit.Attribute`.")


def warn_about_annotations(kind: type) -> None:
    """Warn of `self.x: List[int] = []` etc. in a module class's `__init__`."""
    init = vars(kind).get("__init__")
    if init is None or is_library(kind):
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
    except (OSError, TypeError, SyntaxError):
        return
    declared = vars(kind).get("__annotations__", {})
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute) \
                and node.target.attr not in declared and _is_empty(node.value) \
                and isinstance(node.annotation, ast.Subscript):
            warn(_WARNING)


def _is_empty(value: ast.expr | None) -> bool:
    """Return whether a value is an empty list or dictionary, or None."""
    if isinstance(value, ast.Constant):
        return value.value is None
    if isinstance(value, ast.Call):  # torch.jit.annotate(List[int], [])
        return len(value.args) == 2 and _is_empty(value.args[1])
    return isinstance(value, ast.List) and not value.elts \
        or isinstance(value, ast.Dict) and not value.keys
