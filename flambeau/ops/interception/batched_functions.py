"""Custom Functions inside vmap, those that set `generate_vmap_rule`: `forward` runs on examples,
and the tape below the vmap records one node for the whole batch, whose backward runs the Function's
backward on examples.

If a Function overrides `vmap`, its rule computes all examples at once instead.
"""

from __future__ import annotations

import threading
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ...autograd.function import BackwardCFunction, Function
from ...autograd.mode import MODE, below_transforms
from ...autograd.tape import requires
from ...tensor.size import Size
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ...tensor.windows.batch import Batch, find_innermost_batch
from .batching import OTHER_TARGETS, batch_of

VmapInfo = namedtuple("VmapInfo", ["batch_size", "randomness"])


class _Callers(threading.local):
    """This thread's stack of grad modes, one at the call of each running Function."""

    def __init__(self) -> None:
        self.modes: list[bool] = []


_CALLERS = _Callers()


class _ExampleContext(BackwardCFunction):
    """A Function context whose saved tensors are examples of a batch."""

    examples: tuple[Any, ...]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors of `save_for_backward`, as examples."""
        return self.examples


class _OfExamples(Function):
    """Runs a custom Function on all examples at once."""

    @staticmethod
    def forward(
        ctx: Any, run: Callable, function: type[Function], context: Any, batch: Batch,
        varying: tuple[bool, ...], *below: Any,
    ) -> Any:
        args = tuple([batch.wrap(x) if h else x for x, h in zip(below, varying, strict=True)])
        result = run(function, context, args)
        if "dirty_tensors" in context.__dict__:
            raise NotImplementedError(f"vmap: {function.__name__} writes into its arguments")
        several = isinstance(result, (tuple, list))
        outputs = tuple(result) if several else (result,)
        lowered = tuple([batch.expand(y) if isinstance(y, Tensor) else y for y in outputs])
        constant = {id(t) for t in context.__dict__.get("non_differentiable", ())}
        ctx.mark_non_differentiable(*[
            y for y, example in zip(lowered, outputs, strict=True) if id(example) in constant])
        saved = context.__dict__.get("to_save", ())
        ctx.save_for_backward(*[batch.lower(t) for t in saved])
        ctx.set_materialize_grads(context.__dict__.get("materialize_grads", True))
        ctx.function, ctx.batch, ctx.varying = function, batch, varying
        ctx.saved_varying = tuple([batch.holds(t) for t in saved])
        ctx.attributes = {k: v for k, v in context.__dict__.items() if k != "to_save"}
        return lowered if several else lowered[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        old, function = ctx.batch, ctx.function
        with batch_of(old.size, old.randomness, old.refusal) as batch:
            context = _ExampleContext()
            context.__dict__.update(
                (k, batch.wrap(v._array.below) if old.holds(v) else v)
                for k, v in ctx.attributes.items())
            context.needs_input_grad = ctx.needs_input_grad[5:]
            context.examples = tuple([
                batch.wrap(t) if h else t
                for t, h in zip(ctx.saved_tensors, ctx.saved_varying, strict=True)])
            backward = function.backward
            if backward is Function.backward:
                backward = function.vjp
            result = backward(context, *[
                batch.wrap(g) if isinstance(g, Tensor) else g for g in grads])
            gradients = result if isinstance(result, tuple) else (result,)
            lowered = [_move_gradient_below(batch, g, h)
                       for g, h in zip(gradients, ctx.varying, strict=False)]
        return (None, None, None, None, None, *lowered)


def _move_gradient_below(batch: Batch, g: Any, is_varying: bool) -> Any:
    """Return an argument's gradient below the vmap, summed over examples if they share it."""
    if not isinstance(g, Tensor):
        return g
    expanded = batch.expand(g)
    return expanded if is_varying else expanded.sum(0)


def _apply(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a Function's call, recording the grad mode it was called in."""
    _CALLERS.modes.append(MODE.grad)
    try:
        return original(*args, **kwargs)
    finally:
        _CALLERS.modes.pop()


def _run(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a Function's forward, unrecorded inside the vmap and recorded below it."""
    function, context, call_args = args
    batch = find_innermost_batch(call_args)
    if batch is None:
        return original(*args, **kwargs)
    below = tuple([batch.lower(a) for a in call_args])
    varying = tuple([batch.holds(a) for a in call_args])
    is_recorded = _CALLERS.modes[-1]
    with_grad, MODE.grad = MODE.grad, is_recorded
    try:
        has_rule = function.vmap is not Function.vmap
        if not has_rule and not function.generate_vmap_rule \
                and not function.__module__.startswith("flambeau."):
            raise RuntimeError(
                f"You tried to vmap over {function.__name__}, but it does not have vmap support. "
                "Please override and implement the vmap staticmethod or set "
                "generate_vmap_rule=True. For more details, please see "
                "https://pytorch.org/docs/main/notes/extending.func.html")
        if has_rule:
            _check_single_rule(function)
            result = apply_own_rule(function.vmap, batch, call_args)
        elif is_recorded and any(isinstance(x, Tensor) and x._tracked and requires(x)
                                 for x in below):
            result = _as_examples(batch, _OfExamples.apply(
                original, function, context, batch, varying, *below))
            return result
        else:
            MODE.grad = False
            return original(*args, **kwargs)
    finally:
        MODE.grad = with_grad
    function.setup_context(context, call_args, result)
    return result


def _check_single_rule(function: type[Function]) -> None:
    """Raise RuntimeError if a Function has a vmap rule and also requests a generated one."""
    if function.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True "
            "and an overridden vmap staticmethod. Please set generate_vmap_rule=False or delete "
            "the overridden vmap staticmethod to avoid ambiguity. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html")


def apply_own_rule(
    rule: Callable, batch: Batch, args: tuple, named: dict[str, Any] | None = None
) -> Any:
    """Call a vmap rule `rule(info, in_dims, *args, **named)`; return its outputs as examples."""
    info = VmapInfo(batch.size, batch.randomness)
    in_dims = tuple([_find_axes(batch, a) for a in args])
    with below_transforms(1):
        result = rule(info, in_dims, *map(batch.move, args), **(named or {}))
    if not isinstance(result, tuple) or len(result) != 2:
        returned = f"{len(result)} returns" if isinstance(result, tuple) else f"a {type(result)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with "
            f"pytree structure compatible with the output. Got {returned} instead")
    outputs, out_dims = result
    try:
        return _as_moved(_AxisMove(batch, args), outputs, out_dims)
    except _Incompatible:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) "
            f"tuple. Expected out_dims={out_dims} to be compatible with the structure of `output`. "
            "For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html") from None


class _Incompatible(Exception):
    """Raised if out_dims do not match the structure of the outputs."""


class _AxisMove:
    """Makes examples of a rule's outputs. An output that is an argument stays that argument, so
    that the Function may mark it as written."""

    def __init__(self, batch: Batch, args: tuple) -> None:
        self.batch = batch
        self.arguments = {id(batch.lower(t)): t for t in collect_leaves(Tensor, args)
                          if batch.holds(t)}

    def __call__(self, y: Any, dim: int | None) -> Any:
        if not isinstance(y, Tensor) or dim is None:
            return y
        if not dim and id(y) in self.arguments:
            return self.arguments[id(y)]
        return self.batch.wrap(y.movedim(dim, 0) if dim else y)


def _as_moved(move: _AxisMove, outputs: Any, dims: Any) -> Any:
    """Return the outputs as examples; `dims` has their structure, or is one axis for all."""
    if not isinstance(outputs, (tuple, list)):
        if dims is not None and not isinstance(dims, int):
            raise _Incompatible
        return move(outputs, dims)
    if dims is None or isinstance(dims, int):
        dims = type(outputs)([dims] * len(outputs))
    if type(dims) is not type(outputs) or len(dims) != len(outputs):
        raise _Incompatible
    return type(outputs)([_as_moved(move, y, d) for y, d in zip(outputs, dims, strict=True)])


def _find_axes(batch: Batch, x: Any) -> Any:
    """Return the batch axis of an argument, or None; for a sequence, one per element."""
    if isinstance(x, (tuple, list)):
        axes = [_find_axes(batch, v) for v in x]
        return axes if isinstance(x, Size) else type(x)(axes)  # a Size holds integers
    return x._array.axis if batch.holds(x) else None


def _as_examples(batch: Batch, result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple([_as_examples(batch, y) for y in result])
    return batch.wrap(result) if isinstance(result, Tensor) else result


def _find_targets() -> dict[Any, Callable]:
    methods = vars(Function)
    return {methods["_flambeau_apply"].__func__: _apply, methods["_flambeau_run"].__func__: _run}


OTHER_TARGETS.append(_find_targets)
