"""CodeGen: generate a function's source from a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..utils import _pytree as pytree
from ._compatibility import compatibility
from .code_writer import CodeWriter, PythonCode

__all__ = ["CodeGen", "PythonCode", "TransformCodeFunc"]

TransformCodeFunc = Callable[[list[str]], list[str]]


class _PyTreeInfo(NamedTuple):
    """Names of a function's original arguments, and the tree structure of its inputs and result."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


def _write_lines(items: Sequence[Any], descs: Sequence[str], head: str, show: Any) -> str:
    """Return a list or tuple literal, with one element and its comment per line."""
    opening, closing = "()" if isinstance(items, tuple) else "[]"
    lines = [f"    {show(x)},  # {desc}\n" for x, desc in zip(items, descs, strict=False)]
    return f"{head}{opening}\n{''.join(lines)}{closing}"


def _write_parameter(text: str) -> str:
    parameter, mark, comment = text.partition("#")
    if mark:
        return f"    {parameter.rstrip()},  # {comment.lstrip()}\n"
    return f"    {text},\n"


@compatibility(is_backward_compatible=False)
class CodeGen:
    """Writes a graph as the method `forward`; subclasses change its signature and return.

    >>> torch.fx.symbolic_trace(lambda x: x + 1).graph.python_code("self").src.split()[:3]
    ['def', 'forward(self,', 'x):']
    """

    _sym_repr: Callable[[Any], str] = staticmethod(repr)

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name: str = "forward"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """Return the function's header; `expanded_def`: one parameter per line."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            parameters = "\n" + "".join(map(_write_parameter, free_vars))
        else:
            parameters = ", ".join(free_vars)
        return f"def {self._func_name}({parameters}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Any, *, descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Return the return statement; `descs`: comments for the elements of the result."""
        show = repr_fn or repr
        if descs is not None and isinstance(output_args, (list, tuple)):
            return _write_lines(output_args, descs, "return ", show)
        return f"return {show(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Map the generated function's arguments to the graph's inputs."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Map the graph's result to the generated function's result."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return (name, value) pairs of extra globals that the generated code uses."""
        return []

    def _gen_python_code(
        self, nodes: Any, root_module: str, namespace: Any, **options: Any
    ) -> PythonCode:
        return CodeWriter(self, nodes, root_module, namespace, **options).write()


class _BoxedCodeGen(CodeGen):
    """Generates a function that takes one list and empties it, so inputs can be freed early."""

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """Return the function's header and the statements that unpack its list."""
        lines = [f"def {self._func_name}(self, args_list){maybe_return_annotation}:"]
        names = [v.split(":")[0].split("=")[0].strip() for v in free_vars if v != "self"]
        if names:
            lines += ["args_iter = iter(args_list)", *(f"{n} = next(args_iter)" for n in names),
                      "args_list.clear()"]
        return "\n    ".join(lines)


class _PyTreeCodeGen(CodeGen):
    """Generates a function with nested arguments and results; the graph sees their leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info: _PyTreeInfo = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """Return the leaves of the arguments."""
        return pytree.tree_leaves(inputs)

    def process_outputs(self, out: Any) -> Any:
        """Rebuild the nested result from its leaves."""
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        leaves = out if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_var_bindings(
        self, fn_args: list[str], free_vars: list[str], expanded_def: bool
    ) -> str:
        """Return the statement that flattens the arguments into leaves."""
        spec = self.pytree_info.in_spec
        flattened = f"[{', '.join(fn_args)}], self._in_spec"
        if spec.type is tuple and spec.num_children == 2 and spec.child(0).type is tuple \
                and spec.child(1).type is dict:
            count, names = spec.child(0).num_children, self.pytree_info.orig_args
            words = zip(spec.child(1).context, names[count:], strict=False)
            keywords = ", ".join(f"'{key}':{value}" for key, value in words)
            flattened = f"([{', '.join(names[:count])}], {{{keywords}}}), self._in_spec"
        typed = [v for v in free_vars if ":" in v]
        head = ""
        if typed:
            head = "\n    " + ("\n    ".join(typed) if expanded_def
                               else "".join(f"{v}; " for v in typed) + "\n")
        names = [v.split(":")[0].split("#")[0] for v in free_vars]
        return f"{head}\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec({flattened})"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """Return the function's header and the statement that flattens its arguments."""
        if self.pytree_info is None:
            return super().gen_fn_def(
                free_vars, maybe_return_annotation, expanded_def=expanded_def
            )
        parameters = self.pytree_info.orig_args
        if parameters and parameters[0] == "self":
            free_vars.insert(0, "self")
        text = super().gen_fn_def(
            parameters[:], maybe_return_annotation, expanded_def=expanded_def
        )
        if free_vars:
            text += self.gen_var_bindings(parameters, free_vars, expanded_def)
        return text

    def generate_output(
        self, output_args: Any, *, descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Return the return statement, which rebuilds the nested result."""
        if not self.pytree_info or not self.pytree_info.out_spec:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        show = repr_fn or repr
        if descs is not None and isinstance(output_args, (list, tuple)):
            head = "return pytree.tree_unflatten("
            return _write_lines(output_args, descs, head, show) + ", self._out_spec)"
        return f"return pytree.tree_unflatten({show(output_args)}, self._out_spec)"


@contextlib.contextmanager
def override_sym_repr(override: Callable[[Any], str]) -> Iterator[None]:
    """Context in which symbolic numbers are printed by `override`."""
    before = CodeGen._sym_repr
    CodeGen._sym_repr = staticmethod(override)
    try:
        yield
    finally:
        CodeGen._sym_repr = before
