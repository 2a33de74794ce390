"""torch.while_loop: a function applied to its own results while a condition on them is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.registration.custom_operators import get_namespace
from ..tensor.symbolic_length import SymBool
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .active_export import active_recorder, retracing_recorder

__all__ = ["while_loop", "while_loop_op"]


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
               ) -> Any:
    """Apply `body_fn` to its own results, at first to the inputs, while `cond_fn` of them is true.

    `carried_inputs`: a tuple, possibly nested, of tensors and ints. In programs that torch.export
    exports, both functions become graphs, and each call decides anew how often the loop runs.
    Raises RuntimeError for functions that cannot be called, for other inputs, for a condition that
    is no bool, and for results whose number, shapes or dtypes are not those of the inputs.

    >>> from flambeau._higher_order_ops.while_loop import while_loop
    >>> carried = torch.tensor(0), torch.ones(2)
    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), carried)
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    leaves, spec = pytree.tree_flatten(carried_inputs)
    if not isinstance(carried_inputs, (tuple, list)) or not all(
        isinstance(leaf, (Tensor, int)) for leaf in leaves
    ):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only"
            f"consists of tensor or int leaves, but got {carried_inputs}."
        )

    def condition(*flat: Any) -> Any:
        return cond_fn(*pytree.tree_unflatten(list(flat), spec))

    def body(*flat: Any) -> tuple[Any, ...]:
        results = body_fn(*pytree.tree_unflatten(list(flat), spec))
        structure = pytree.tree_structure(results)
        if structure.num_leaves != spec.num_leaves:
            raise RuntimeError(
                "body_fn should return the same number of elements as carried_inputs, got "
                f"{structure.num_leaves} vs {spec.num_leaves}"
            )
        return tuple(pytree.tree_leaves(results))

    recorder = active_recorder()
    run = while_loop_op if recorder is None else recorder.loop_while
    results = run(condition, body, tuple(leaves), ())
    return pytree.tree_unflatten(list(results), spec)


def while_loop_op(cond_fn: Callable[..., Any], body_fn: Callable[..., Any],
                  carried_inputs: Any, additional_inputs: Any = ()) -> tuple[Any, ...]:
    """The operator of exported graphs: both functions also take the additional inputs."""
    carried = tuple(carried_inputs)
    recorder = retracing_recorder()
    if recorder is not None:  # a graph is traced again
        return tuple(recorder.loop_while(
            lambda *values: _unpack(cond_fn(*values, *additional_inputs)),
            lambda *values: tuple(body_fn(*values, *additional_inputs)), carried, ()))
    if not is_true(cond_fn(*carried, *additional_inputs)):
        return tuple(x.clone() if isinstance(x, Tensor) else x for x in carried)
    while True:
        before, carried = carried, tuple(body_fn(*carried, *additional_inputs))
        check_carried(before, carried)
        if not is_true(cond_fn(*carried, *additional_inputs)):
            return carried


def is_true(value: Any) -> bool:
    """Return a condition's value. RuntimeError unless it is a bool or a tensor of one bool."""
    value = _unpack(value)
    if isinstance(value, SymBool):
        return bool(value)
    scalar = isinstance(value, Tensor) and not value.shape and value.dtype.name == "bool"
    if not scalar and not isinstance(value, bool):
        raise RuntimeError(
            f"cond_fn must return a boolean scalar tensor or a boolean but got {value}"
        )
    return bool(value)


def _unpack(value: Any) -> Any:
    """Return a condition's value: some graphs return tuples of one."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def check_carried(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    """Raise RuntimeError unless results have the kinds, shapes and dtypes of the inputs."""
    for i, (x, y) in enumerate(zip(before, after, strict=True)):
        tensors = isinstance(x, Tensor), isinstance(y, Tensor)
        if tensors[0] != tensors[1] or tensors[0] and (x.shape, x.dtype) != (y.shape, y.dtype):
            raise RuntimeError(
                "Expected body_fn_output and carried_inputs to have same metadata but found:\n"
                f"pair[{i}] differ: {_describe(x)} and {_describe(y)}"
            )


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
    return f"{value!r}"


while_loop_op.__name__ = "while_loop"
while_loop_op.__module__ = "torch.ops.higher_order"
setattr(get_namespace("higher_order"), "while_loop", while_loop_op)  # noqa: B010
