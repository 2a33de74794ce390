"""Stop in the debugger when a graph module runs."""

from __future__ import annotations

from ..graph_module import GraphModule

__all__ = ["set_trace"]


def set_trace(gm: GraphModule) -> GraphModule:
    """Insert a breakpoint at the start of a graph module's generated code; return the module.

    >>> from flambeau.fx.experimental.debug import set_trace
    >>> "pdb.set_trace()" in set_trace(torch.fx.symbolic_trace(lambda x: x + 1)).code
    True
    """
    stop = "import pdb; pdb.set_trace()\n"
    with gm.graph.on_generate_code(
        lambda inner: lambda body: [stop, *(inner(body) if inner else body)]
    ):
        gm.recompile()
    return gm
