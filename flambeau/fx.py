"""torch.fx: symbolic traces of modules, which flambeau does not have yet."""

from .tensor.lacking import lacking

__all__: list[str] = []

_NAMES = (
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer",
    "replace_pattern", "symbolic_trace", "wrap",
)  # fmt: skip

__getattr__ = lacking(__name__, _NAMES)
