"""torch.fx: functions and modules as graphs of what they compute, which Python code can change.

`symbolic_trace` makes a graph by one run on proxies; `Graph` and `Node` are what passes work on;
`GraphModule` runs what comes out, as code that can be read.
"""

from ..tensor.absent import lacking
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "ProxyableClassMeta",
    "Tracer", "Transformer", "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace",
    "wrap",
]

__getattr__ = lacking(__name__)
