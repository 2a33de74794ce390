"""torch.fx: trace functions and modules into graphs that Python code can transform.

`symbolic_trace` builds a graph from one run on proxies; passes work on `Graph` and `Node`;
`GraphModule` runs the result as readable Python code.
"""

from ..tensor.absent import make_absent_getattr
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

__getattr__ = make_absent_getattr(__name__)
