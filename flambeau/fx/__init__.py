"""torch.fx: symbolic traces of modules, which flambeau does not have yet."""

from typing import Any

from ..tensor.absent import lacking

__all__ = ["wrap"]

_NAMES = (
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer",
    "replace_pattern", "symbolic_trace",
)  # fmt: skip

__getattr__ = lacking(__name__, _NAMES)


def wrap(fn_or_name: Any) -> Any:
    """The function, or its name, as it is: it marks what a trace would not look into."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    return fn_or_name
