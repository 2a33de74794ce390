"""User Functions on nested tensors: they get rows, and are recorded on the values."""

from __future__ import annotations

from typing import Any

from ..autograd.function import NESTED_APPLY, Function
from ..ops.interception.torch_function import enable_dispatch
from .ragged_tensor import RaggedTensor


def apply_on_values(cls: type[Function], args: tuple) -> Any:
    """Apply a user's Function to nested tensors.

    A subclass, made for this call, takes and returns values for the tape; the user's `forward` and
    `backward` get them as rows of the arguments and of the results.
    """
    results: list[Any] = []  # the user's results, for their rows

    def run(_: Any, context: Any, values: tuple) -> Any:
        rows = tuple(_as_rows(a, v) for a, v in zip(args, values, strict=True))
        returned = cls._flambeau_run(context, rows)
        several = isinstance(returned, (tuple, list))
        results[:] = returned if several else [returned]
        for name in ("non_differentiable", "dirty_tensors"):
            if name in context.__dict__:
                context.__dict__[name] = tuple(_values(t) for t in context.__dict__[name])
        return type(returned)(map(_values, results)) if several else _values(returned)

    def backward(context: Any, *gradients: Any) -> Any:
        rows = [_as_rows(y, g) for y, g in zip(results, gradients, strict=True)]
        custom = cls.backward if cls.backward is not Function.backward else cls.vjp
        with enable_dispatch():  # a user's code on rows, in the middle of backward
            returned = custom(context, *rows)
        if isinstance(returned, (tuple, list)):
            return tuple(map(_values, returned))
        return _values(returned)

    members = {"_flambeau_run": classmethod(run), "backward": staticmethod(backward)}
    on_values: Any = type(cls.__name__, (cls,), members)
    _, returned = on_values._flambeau_apply(tuple(map(_values, args)))
    if isinstance(returned, (tuple, list)):
        return type(returned)(_as_rows(y, v) for y, v in zip(results, returned, strict=True))
    return _as_rows(results[0], returned)


def _values(x: Any) -> Any:
    return x._values if isinstance(x, RaggedTensor) else x


def _as_rows(pattern: Any, values: Any) -> Any:
    """Return values as rows like a nested tensor's; anything else unchanged."""
    if not isinstance(pattern, RaggedTensor) or values is None:
        return values
    return pattern if values is pattern._values else pattern._build_like(values)


NESTED_APPLY[RaggedTensor] = apply_on_values
