"""The autograd kernel of a CustomOp: the user's function that saves, and the one that
differentiates. The latter returns a dict with the gradient of each argument that may hold tensors.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ..autograd.function import Function
from ..autograd.mode import MODE
from ..ops.registration.dispatch_keys import _AutoDispatchBelowAutograd
from ..tensor.tensor import Tensor
from ..tensor.tree import collect_leaves
from ..utils import _pytree as pytree

__all__ = ["create_kernel"]


def create_kernel(op: Any) -> Callable[..., Any]:
    """Return the kernel for Autograd of a CustomOp. RuntimeError where one of the two functions is
    missing, or where a gradient is asked for and both are."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if op._has_impl("save_for_backward") and op._has_impl("backward"):
            return _apply(op, args)
        for present, missing in (("backward", "save_for_backward"),
                                 ("save_for_backward", "backward")):
            if op._has_impl(present):
                raise RuntimeError(
                    f"We found a '{present}' registration for {op} at "
                    f"{op._get_impl(present).location} but were unable to find a '{missing}' "
                    "registration. To use the CustomOp API to register a backward formula, please "
                    "provide us both a backward function and a 'save for backward' function via "
                    "`impl_backward` and `impl_save_for_backward` respectively.")
        if MODE.grad and any(x.requires_grad for x in collect_leaves(Tensor, (args, kwargs))):
            raise RuntimeError("Autograd has not been implemented for operator")
        with _AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return kernel


def _apply(op: Any, args: tuple) -> Any:
    """Call the operator and record its backward function."""
    names = [a.name for a in op._schema.arguments]
    arguments = namedtuple(f"{op._opname}_args", names)  # type: ignore[misc]
    leaves, spec = pytree.tree_flatten(args)
    result_spec: list[Any] = []

    def forward(ctx: Any, *values: Any) -> tuple:
        ctx.set_materialize_grads(True)
        inner = pytree.tree_unflatten(list(values), spec)
        with _AutoDispatchBelowAutograd():
            output = op(*inner)
        saved = op._get_impl("save_for_backward").func(arguments(*inner), output)
        _save(ctx, (saved, arguments(*pytree.tree_map(type, inner))))
        _mark_constant(ctx, output, op._output_differentiability)
        flat, new_spec = pytree.tree_flatten(output)
        result_spec.append(new_spec)
        return tuple(flat)

    def backward(ctx: Any, *gradients: Any) -> tuple:
        grouped = pytree.tree_unflatten(list(gradients), result_spec[0])
        saved, kinds = _read_saved(ctx)
        result = op._get_impl("backward").func(
            object(), saved, *(grouped if isinstance(grouped, tuple) else (grouped,)))
        _check_gradients(op, result, kinds)
        rows = [result[name] if name in result else pytree.tree_map(lambda kind: None, kind)
                for name, kind in kinds._asdict().items()]
        return tuple(pytree.tree_leaves(rows))

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward),
            "__module__": __name__}
    function: Any = type(f"{op._opname}_customop", (Function,), body)
    return pytree.tree_unflatten(list(function.apply(*leaves)), result_spec[0])


def _save(ctx: Any, values: Any) -> None:
    """Keep a tree of values for backward, its tensors by `save_for_backward`."""
    leaves, ctx.saved_spec = pytree.tree_flatten(values)
    ctx.save_for_backward(*[x for x in leaves if isinstance(x, Tensor)])
    ctx.saved_others = [None if isinstance(x, Tensor) else (x,) for x in leaves]


def _read_saved(ctx: Any) -> Any:
    tensors = iter(ctx.saved_tensors)
    leaves = [next(tensors) if other is None else other[0] for other in ctx.saved_others]
    return pytree.tree_unflatten(leaves, ctx.saved_spec)


def _mark_constant(ctx: Any, output: Any, differentiability: list[bool] | None) -> None:
    """Declare the results without gradients, as `impl_backward` was told."""
    if differentiability is None:
        return
    constant: list[Tensor] = []
    results = output if isinstance(output, tuple) else (output,)
    for i, (is_smooth, y) in enumerate(zip(differentiability, results, strict=True)):
        if isinstance(y, (Tensor, list)):
            if not is_smooth:
                constant += [y] if isinstance(y, Tensor) else y
        elif is_smooth:
            raise RuntimeError(
                f"With output_differentiability={differentiability}. At idx {i}, we received an "
                f"object of type {type(y)} that is not a Tensor, so it cannot have be marked as "
                "differentiable in output_differentiability.")
    if constant:
        ctx.mark_non_differentiable(*constant)


def _check_gradients(op: Any, result: Any, kinds: Any) -> None:
    """Raise RuntimeError unless `result` has the gradient of each argument that may hold tensors.
    """
    prefix = (f"In the backward function defined for {op} at "
              f"{op._get_impl('backward').location} using the CustomOp API, ")
    if not isinstance(result, dict):
        raise RuntimeError(f"{prefix}expected the output of the backward function to be a dict but "
                           f"got {type(result)}")
    expected = {a.name for a in op._schema.arguments if a.kind.startswith("Tensor")}
    if expected != result.keys():
        raise RuntimeError(
            f"{prefix}expected the returned grad_input dict to have keys {expected} but got "
            f"{result.keys()}. The backward function must return a gradient (can be None) for each "
            "arg to the CustomOp that may be a Tensor or Sequence[Tensor]. Args declared to be "
            "non-Tensor-like types should not appear in the grad_input dict")
    for name, g in result.items():
        kind = getattr(kinds, name)
        problem = _find_problem_of_list(name, g, kind) if isinstance(kind, list) \
            else _find_problem(name, g, kind)
        if problem:
            raise RuntimeError(prefix + problem)


def _find_problem(name: str, g: Any, kind: type) -> str:
    if g is None:
        return ""
    if not isinstance(g, Tensor):
        return (f"got object of type {type(g)} as the gradient for input '{name}', but expected "
                "the gradient to be either None or a Tensor")
    if not issubclass(kind, Tensor):
        return (f"got a Tensor as the gradient for input '{name}' but expected None as the "
                f"gradient because input '{name}' was not a Tensor (it was type {kind}).")
    return ""


def _find_problem_of_list(name: str, gradients: Any, kinds: list[type]) -> str:
    if not isinstance(gradients, (tuple, list)):
        return (f"for input '{name}' expected the grad_input dict to hold a list of gradients but "
                f"got object of type {type(gradients)}.")
    if len(gradients) != len(kinds):
        return (f"for input '{name}' expected the grad_input dict to hold a list of {len(kinds)} "
                f"gradients but got {len(gradients)}")
    for i, (g, kind) in enumerate(zip(gradients, kinds, strict=True)):
        if g is not None and not isinstance(g, Tensor):
            return (f"for input '{name}' expected the grad_input dict to hold a list of None or "
                    f"Tensor gradients but got object of {type(g)} at index {i}")
        if g is not None and not issubclass(kind, Tensor):
            return (f"for input '{name}', got a Tensor as the gradient for the {i}-th value but "
                    f"expected None because the {i}-th value was not a Tensor (it was type {kinds}")
    return ""
