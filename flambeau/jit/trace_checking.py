"""What `torch.jit.trace` warns of and refuses: values it reads, outputs, results that differ."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..autograd import no_grad
from ..export import ExportedProgram
from ..native.foundation.user_frames import warn
from ..nn.module import Module
from ..random import fork_rng
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .traced_values import check_output_types, infer_type
from .tracer_warning import TracerWarning

__all__ = ["TracingCheckError", "check_output", "check_trace", "merge_warnings", "note_read"]

_READ = ("Converting a tensor to a {kind} might cause the trace to be incorrect. We can't "
         "record the data flow of Python values, so this value will be treated as a constant in "
         "the future. This means that the trace might not generalize to other inputs!")
_KINDS = {"__bool__": "Python boolean", "__int__": "Python integer", "__float__": "Python float",
          "__index__": "Python index", "numpy": "NumPy array", "is_nonzero": "Python boolean",
          "equal": "Python boolean", "allclose": "Python boolean"}
_CONTAINER = (
    "Encountering a {kind} at the output of the tracer might cause the trace to be incorrect, this "
    "is only valid if the container structure does not change based on the module's inputs. "
    "Consider using a constant container instead (e.g. for `list`, use a `tuple` instead. for "
    "`dict`, use a `NamedTuple` instead). If you absolutely need this and know the side effects, "
    "pass strict=False to trace() to allow this behavior.")


class TracingCheckError(Exception):
    """The graphs of two traces of one program differ."""

    def __init__(self, graph_diff_error: Any, tensor_compare_error: Any,
                 extra_msg: str | None = None) -> None:
        parts = ["Tracing failed sanity checks!\n"]
        if extra_msg is not None:
            parts.append(f"{extra_msg}\n")
        if graph_diff_error is not None:
            parts.append(f"ERROR: Graphs differed across invocations!\n{graph_diff_error}\n")
        if tensor_compare_error is not None:
            parts.append("ERROR: Tensor-valued Constant nodes differed in value across "
                         "invocations. This often indicates that the tracer has encountered "
                         f"untraceable code.\n{tensor_compare_error}\n")
        self.message = "".join(parts)
        super().__init__(self.message)


def note_read(name: str) -> None:
    """Warn that the program reads a tensor's value, at the program's line."""
    warn(_READ.format(kind=_KINDS.get(name, "Python number")), TracerWarning)


@contextmanager
def merge_warnings() -> Iterator[None]:
    """Show each warning of the block once, after it: a trace runs the program several times."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    shown = set()
    for warning in caught:
        key = (str(warning.message), warning.filename, warning.lineno)
        if key not in shown:
            shown.add(key)
            warnings.warn_explicit(warning.message, warning.category, warning.filename,
                                   warning.lineno)


def check_output(program: ExportedProgram, strict: bool) -> None:
    """Refuse outputs other than tensors in containers; with `strict`, dicts. Warn of lists."""
    output = next(iter(reversed(program.graph.nodes)))
    leaves: Any = output.args[0]
    tree = pytree.tree_unflatten(list(leaves), program._out_spec)
    if tree is None:
        raise RuntimeError("The traced function didn't return any values! Side-effects are not "
                           "captured in traces, so it would be a no-op.")
    infer_type(tree)
    if isinstance(tree, dict):
        check_output_types(tree)
    if not all(hasattr(leaf, "meta") for leaf in leaves) or (
            isinstance(tree, list) and any(isinstance(part, list) for part in tree)):
        raise RuntimeError("Only tensors, lists, tuples of tensors, or dictionary of tensors can "
                           "be output from traced functions")
    if strict and isinstance(tree, dict):
        raise RuntimeError(_CONTAINER.format(kind="dict"))
    if strict and isinstance(tree, list):
        warn(_CONTAINER.format(kind="list"), TracerWarning)
    check_output_types(tree)


def check_trace(run: Callable[..., Any], program: ExportedProgram, module: Module, inputs: tuple,
                kwargs: dict[str, Any], tolerance: float,
                retraces: Sequence[Callable[[], ExportedProgram]]) -> None:
    """Run module and trace on copies of the inputs, and warn if the results differ.

    `run`: runs the trace's `program`.
    Raises TracingCheckError if `retraces` then give different graphs.
    """
    random = [node for node in program.graph.nodes if _is_draw(node)]
    if random:
        rows = "".join(f"\t{node.format_node()}\n" for node in random)
        warn(
            "Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n"
            f"{rows}This may cause errors in trace checking. To disable trace checking, pass "
            "check_trace=False to torch.jit.trace()", TracerWarning)
    buffers = {name: b.clone() for name, b in module.named_buffers()}
    with no_grad(), fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = module(*_copy(inputs), **_copy(kwargs))
        for name, b in module.named_buffers():
            b.copy_(buffers[name])
        actual = run(*_copy(inputs), **_copy(kwargs))
        for name, b in module.named_buffers():
            b.copy_(buffers[name])
    differing = _describe_difference(actual, expected, tolerance)
    for text in differing:
        warn(text, TracerWarning)
    if differing and not random:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, second = (retrace().graph_module.code for retrace in retraces)
        if first != second:
            raise TracingCheckError(f"\tGraph diff:\n{first}\n{second}", None)


def _is_draw(node: Any) -> bool:
    name = str(getattr(node.target, "__name__", node.target))
    return node.op == "call_function" and (
        "rand" in name or "dropout" in name and node.args[2:3] != (False,)
        or name.partition(".")[0] in ("bernoulli", "bernoulli_", "multinomial", "normal",
                                      "normal_", "uniform_", "poisson"))


def _copy(value: Any) -> Any:
    return pytree.tree_map(
        lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else copy.copy(leaf), value)


def _describe_difference(actual: Any, expected: Any, tolerance: float) -> list[str]:
    from ..testing import assert_close

    result = []
    pairs = zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=False)
    for number, (traced, plain) in enumerate(pairs, 1):
        if not isinstance(traced, Tensor) or not isinstance(plain, Tensor):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of divisions by zero in relative differences
                assert_close(traced, plain, rtol=tolerance, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            result.append(f"Output nr {number}. of the traced function does not match the "
                          f"corresponding output of the Python function. Detailed error:\n{error}")
    return result
