"""RewritingTracer: turn asserts and annotations into calls before tracing."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import textwrap
from types import FunctionType
from typing import Any

from ...nn.module import Module
from .._compatibility import compatibility
from .._symbolic_trace import Tracer
from ..graph import Graph

__all__ = ["AST_Rewriter", "RewritingTracer"]


@compatibility(is_backward_compatible=False)
class AST_Rewriter(ast.NodeTransformer):
    """Rewrites `assert x, m` to `torch._assert(x, m)`, and `y: T = x` to `y = annotate(x, T)`."""

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """Return the rewritten function, with its original globals."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
        # Do not inherit this file's `from __future__ import annotations`, which makes them strings.
        code = compile(ast.fix_missing_locations(self.visit(tree)), "", "exec", dont_inherit=True)
        space = copy.copy(fn.__globals__)
        before = set(space)
        exec(code, space)
        added = set(space) - before
        name = fn.__name__ if not added else next(iter(added))
        rewritten = space[name]
        result = FunctionType(rewritten.__code__, fn.__globals__, rewritten.__name__,
                              rewritten.__defaults__, rewritten.__closure__)
        functools.update_wrapper(result, rewritten)
        result.__kwdefaults__ = copy.copy(rewritten.__kwdefaults__)
        return result

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """Replace the assert by a call of torch._assert."""
        call: Any = ast.parse("torch._assert()", mode="eval")
        call.body.args = [node.test, node.msg or ast.Constant(value="")]
        return ast.copy_location(ast.Expr(value=call.body), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        """Replace the annotated assignment by a call of annotate."""
        name = ast.Name(id="annotate", ctx=ast.Load())
        args: Any = [node.value, node.annotation]
        return ast.Assign(targets=[node.target],
                          value=ast.Call(func=name, args=args, keywords=[]))


def _rewrite(fn: Any) -> Any:
    if not isinstance(fn, Module):
        return AST_Rewriter().rewrite(fn)
    module = fn

    class RewrittenModule(Module):
        def __init__(self) -> None:
            super().__init__()
            for name, value in vars(module).items():
                child = _rewrite(value) if isinstance(value, Module) else value
                self.__dict__[name] = copy.copy(child)

    RewrittenModule.forward = AST_Rewriter().rewrite(module.forward)  # type: ignore[arg-type]
    return RewrittenModule()


@compatibility(is_backward_compatible=False)
class RewritingTracer(Tracer):
    """Rewrites a function or module, then traces it."""

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """Return the graph of the rewritten root."""
        return super().trace(_rewrite(root), concrete_args)
