"""Forward mode: while a level is active, operators push their inputs' tangents to their results.

A stub on each operator runs the operator on the primals and the rule in `tangent_rules.py` on the
tangents. Both may carry tangents of outer levels and may be recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ...autograd.inplace import prepare_write
from ...autograd.node import Node
from ...autograd.saved.plan import INPUT
from ...autograd.saved.values import SavedOutput
from ...autograd.tangents import (
    LEVELS, Switch, allocate_memory_tangent, allocate_tangent, carry,
    find_level, get_primal, get_tangent, give, hide, tangents_of,
)
from ...native.foundation.method_patches import library_attributes
from ...tensor.dtypes import dtype
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves, map_leaves_of
from ...tensor.windows.batch import find_innermost_batch
from ..core.dispatch import find_pointwise_operator
from ..core.inplace import assign
from ..core.operator import OPERATORS, PUBLIC, Kind, Operator
from ..creation.random import IN_PLACE_DRAWS
from ..indexing import index
from ..view.slices import basic_index
from . import tangent_rules
from .lingering_stubs import LingeringStubs
from .operator_arguments import bind_arguments, gather_arguments
from .plain_duals import as_dual, check_out, push_plain, separate, split_plain


def _list_targets() -> list[tuple[Any, Callable]]:
    """Return each operator's function, its in-place twin, its Python operators, and their stubs."""
    result: dict[Any, Callable] = {}
    for operator in OPERATORS.values():
        if operator.kind is Kind.COMPOSITE:
            continue
        if operator.differentiable:
            result[operator.function] = functools.partial(push, operator, False)
        twin = getattr(operator, "twin", None)
        if twin is not None:
            result[twin] = functools.partial(push_in_place, operator)
    for name, function in library_attributes(Tensor).items():
        if isinstance(function, FunctionType) and function not in result:
            if (pointwise := find_pointwise_operator(function)) is not None:
                result[function] = functools.partial(push, *pointwise)
            elif name in SHORT_CUTS:
                result[function] = SHORT_CUTS[name]
    for name in ("copy_", "fill_", "zero_"):
        result[PUBLIC["Tensor"].get(name) or getattr(Tensor, name)] = WRITES[name]
    result |= dict.fromkeys(IN_PLACE_DRAWS, _draw_in_place)
    result |= {PUBLIC["torch"][name]: _draw for name in ("normal", "bernoulli", "poisson")}
    result[Tensor.__setitem__] = _set_item
    result[index.put_at], result[assign], result[prepare_write] = _put_at, _assign, _prepare_write
    return list(result.items())


def _matmul(
    original: Callable, args: tuple, kwargs: dict[str, Any], always: bool = False
) -> Any:
    if not always and find_call_level(args) is None:
        return original(*args)
    return OPERATORS["matmul"].function(*args)


def _view(
    original: Callable, args: tuple, kwargs: dict[str, Any], always: bool = False
) -> Any:
    if kwargs or isinstance(args[1], dtype) or not (always or find_call_level(args) is not None):
        return _hide_views(original(*args, **kwargs), (), args)
    shape = args[1:] if isinstance(args[1], int) else tuple(args[1])
    return OPERATORS["_view"].function(args[0], shape)


def _get_item(
    original: Callable, args: tuple, kwargs: dict[str, Any], always: bool = False
) -> Any:
    x, item = args
    always = always or find_call_level(args) is not None
    if item.__class__ in (slice, tuple) and always and (plain := index.normalize_plain_index(item)):
        return basic_index(x, plain)
    if item.__class__ is not int or not always:
        return _hide_views(original(x, item), (), args)
    if not -x.shape[0] <= item < x.shape[0]:
        return original(x, item)
    return OPERATORS["select"].function(x, 0, item)


# Methods with fast paths that bypass the operator's function.
SHORT_CUTS = {"__matmul__": _matmul, "view": _view, "__getitem__": _get_item}


def find_call_level(args: Sequence[Any]) -> int | None:
    """Return the innermost level at which an argument, or an element of one, carries a tangent.

    None if an argument is an example of a vmap inside that level: its batch is handled first.
    """
    level = _find_last_level(args)
    if level is None:
        return None
    batch = find_innermost_batch(args)
    return None if batch is not None and batch.outer_level >= level else level


def _find_last_level(args: Iterable[Any]) -> int | None:
    """Return the innermost level of the tensors in `args`; hot: runs for every operator."""
    innermost: int | None = None
    for x in args:
        if isinstance(x, Tensor):
            if "_tangents" not in x.__dict__ and x._base is None:
                continue
            level = find_level(x)
        elif isinstance(x, (tuple, list)):
            level = _find_last_level(x)
        elif isinstance(x, dict):
            level = _find_last_level(x.values())
        else:
            continue
        if level is not None and (innermost is None or level > innermost):
            innermost = level
    return innermost


def _list_primals(args: tuple, level: int) -> tuple:
    """Return the arguments without their tangents at `level`."""
    return tuple([get_primal(x, level) if isinstance(x, Tensor) else
                  map_leaves_of(Tensor, lambda t: get_primal(t, level), x)
                  if isinstance(x, (tuple, list, dict)) else x for x in args])


def push(
    operator: Operator, reflected: bool, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Run the operator on primals; return its result with the tangents pushed by its rule."""
    if not LEVELS.active:
        _pushing.count_idle_call()
        return original(*args, **kwargs)
    level = None
    if LEVELS.enabled:
        if len(LEVELS.active) == 1:
            level = LEVELS.active[0]
            split = split_plain(args, kwargs, level)
            if split is not None:
                y, dy = push_plain(operator, reflected, original, split, kwargs)
                if dy is None:
                    return y
                result = as_dual(y, dy, level)
                if split[3]:
                    _keep_duals(operator, y, result, bind_arguments(
                        operator, gather_arguments(operator, args, kwargs), kwargs, reflected))
                return result
        level = find_call_level(args) if not kwargs else find_call_level((*args, *kwargs.values()))
    elif LEVELS.tape is not None:
        y = original(*args, **kwargs)
        LEVELS.tape.note(operator, bind_arguments(operator, args, kwargs, reflected), y)
        return y
    if level is None:
        y = original(*args, **kwargs)
        return _hide_views(y, (), args) if operator.kind is Kind.VIEW else y
    check_out(operator, kwargs)
    return _push_by_rule(operator, reflected, original, args, kwargs, level)


def _push_by_rule(
    operator: Operator, reflected: bool, original: Callable, args: tuple, kwargs: dict[str, Any],
    level: int
) -> Any:
    primals = _list_primals(args, level)
    named = map_leaves_of(Tensor, lambda x: get_primal(x, level), kwargs) if kwargs else kwargs
    if len(LEVELS.active) == 1:
        y = original(*primals, **named)
    else:  # outer levels may have tangents
        y = push(operator, reflected, original, primals, named)
    if y is NotImplemented or not operator.differentiable:
        return y
    if operator.kind is Kind.VIEW:
        _hide_views(y, (level,), primals)
    duals = bind_arguments(operator, gather_arguments(operator, args, kwargs), kwargs, reflected)
    values = bind_arguments(operator, gather_arguments(operator, primals, named), named, reflected)
    tangents = [_read_tangents(value, level) for value in duals]
    dy = tangent_rules.push(operator, values, tangents, y)
    if operator.kind is not Kind.VIEW:
        dy = separate(dy, y, tangents)
    result = as_dual(y, dy, level)
    if operator.kind is not Kind.COMPOSITE:
        _keep_duals(operator, y, result, duals)
    return result


def _hide_views(y: Any, levels: tuple[int, ...], primals: Sequence[Any]) -> Any:
    """Make views of a primal ignore the tangents of its memory that the primal ignores."""
    if LEVELS.has_late and primals and isinstance(primals[0], Tensor):
        for x in collect_leaves(Tensor, y):
            hide(x, levels, primals[0])
    return y


def _read_tangents(value: Any, level: int) -> Any:
    """Return the tangents of an argument: None, a tensor, or a list for a sequence of tensors."""
    if isinstance(value, Tensor):
        return get_tangent(value, level)
    if value.__class__ in (tuple, list):
        result = [get_tangent(v, level) if isinstance(v, Tensor) else None for v in value]
        return result if any(t is not None for t in result) else None
    return None


def _keep_duals(operator: Operator, y: Any, result: Any, duals: list[Any]) -> None:
    """Make the recorded node save duals, so that its backward also pushes tangents."""
    first = y if isinstance(y, Tensor) else next((t for t in y if isinstance(t, Tensor)), None)
    if first is None or first._node is None or first._node.shown().plan is None:
        return
    node = first._node.shown()
    if node.operator is not operator or node.saved is None or node.plan.plain:
        return
    saved = list(node.saved)
    for i, (kind, position) in enumerate(node.plan.sources):
        if kind == INPUT:
            saved[i] = duals[position]
        elif isinstance(saved[i], tuple):
            saved[i] = tuple(SavedDual(v, result) if v.__class__ is SavedOutput else v
                             for v in saved[i])
        elif saved[i].__class__ is SavedOutput:
            saved[i] = SavedDual(saved[i], result)
    node.saved = tuple(saved)


class SavedDual(SavedOutput):
    """A node's output with its tangents. Omits the tensor itself to avoid a cycle."""

    __slots__ = ("tangents",)

    def __init__(self, saved: SavedOutput, result: Any) -> None:
        self.array, self.counter, self.index = saved.array, saved.counter, saved.index
        self.version, self.twin = saved.version, saved.twin
        y = result if isinstance(result, Tensor) else result[saved.index or 0]
        self.tangents = tangents_of(y)

    def tensor(self, node: Node) -> Tensor:
        """Return the output as a dual."""
        return give(self.tangents, super().tensor(node))


# ------------------------------------------------------------------------------------- writes


def _write_tangent(target: Tensor, primal: Tensor, tangent: Tensor | None, level: int) -> Tensor:
    """Set the target's tangent after its `primal` was written; None means zero."""
    own = get_tangent(target, level)
    if tangent is None:
        tangent = primal.new_zeros(primal.shape)
    if own is None:
        own = allocate_memory_tangent(target, tangent, level)
    own.copy_(tangent.expand(own.shape).to(own.dtype))
    return _follow(target, primal)


def _follow(target: Tensor, primal: Tensor) -> Tensor:
    """Copy the history that a write recorded on the primal to the target, and return it."""
    target._node, target._requires_grad = primal._node, primal._requires_grad
    target._tracked = primal._tracked
    return target


def push_in_place(
    operator: Operator, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Run the in-place twin on primals; give its target the tangents pushed by the rule."""
    level = find_call_level(args) if not kwargs else find_call_level((*args, *kwargs.values()))
    if level is None or not LEVELS.enabled:
        return original(*args, **kwargs)
    target = args[0]
    strip = functools.partial(get_primal, level=level)
    primals = map_leaves_of(Tensor, strip, args)
    named = map_leaves_of(Tensor, strip, kwargs)
    duals, values = bind_arguments(operator, args, kwargs, False), bind_arguments(
        operator, primals, named, False)
    values[0] = old = primals[0].clone()
    y = operator.function(*_select_positional(operator, values))
    dy = tangent_rules.push(operator, values, [_read_tangents(v, level) for v in duals], y)
    del old
    push_in_place(operator, original, primals, named)
    return _write_tangent(target, primals[0], dy, level)


def _select_positional(operator: Operator, values: list[Any]) -> list[Any]:
    return values[: sum(p.kind is not p.KEYWORD_ONLY for p in operator.parameters)]


def _make_stub(*positions: int) -> Callable[[Callable], Callable]:
    """Make a stub of rule(original, args, kwargs, level), which runs if the arguments at these
    positions carry tangents: all arguments if no positions are given."""

    def decorate(rule: Callable) -> Callable:
        def stub(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
            chosen = tuple([args[i] for i in positions if i < len(args)]) if positions \
                else (*args, *kwargs.values())
            level = find_call_level(chosen)
            if level is None or not LEVELS.enabled:
                return original(*args, **kwargs)
            return rule(original, args, kwargs, level)

        return stub

    return decorate


@_make_stub(0, 1)
def _copy(original: Callable, args: tuple, kwargs: dict[str, Any], level: int) -> Tensor:
    target, source = args[:2]
    primal = get_primal(target, level)
    _copy(original, (primal, get_primal(source, level), *args[2:]), kwargs)
    tangent = get_tangent(source, level) if isinstance(source, Tensor) else None
    return _write_tangent(target, primal, tangent, level)


@_make_stub()
def _fill(original: Callable, args: tuple, kwargs: dict[str, Any], level: int) -> Tensor:
    primal = get_primal(args[0], level)
    values = (*args[1:], *kwargs.values())  # none in zero_
    value = values[0] if values else None
    strip = functools.partial(get_primal, level=level)
    _fill(original, (primal, *map_leaves_of(Tensor, strip, values)), {})
    tangent = get_tangent(value, level) if isinstance(value, Tensor) else None
    return _write_tangent(args[0], primal, tangent, level)


WRITES = {"copy_": _copy, "fill_": _fill, "zero_": _fill}


@_make_stub()
def _draw(original: Callable, args: tuple, kwargs: dict[str, Any], level: int) -> Any:
    """Draw with a zero tangent: draws have no derivative with respect to parameters."""
    strip = functools.partial(get_primal, level=level)
    named = map_leaves_of(Tensor, strip, kwargs)
    y = _draw(original, tuple(map_leaves_of(Tensor, strip, args)), named)
    return as_dual(y, y.new_zeros(y.shape), level)


@_make_stub()
def _draw_in_place(original: Callable, args: tuple, kwargs: dict[str, Any], level: int) -> Tensor:
    strip = functools.partial(get_primal, level=level)
    primals = map_leaves_of(Tensor, strip, args)
    _draw_in_place(original, primals, map_leaves_of(Tensor, strip, kwargs))
    return _write_tangent(args[0], primals[0], None, level)


@_make_stub(0, 2)
def _set_item(original: Callable, args: tuple, kwargs: dict[str, Any], level: int) -> None:
    target, item, value = args
    primal = get_primal(target, level)
    _set_item(original, (primal, item, get_primal(value, level)), kwargs)
    own = get_tangent(target, level)
    pushed = get_tangent(value, level) if isinstance(value, Tensor) else None
    tangent = own
    if tangent is None:
        tangent = allocate_tangent(primal, primal if pushed is None else pushed)
    if pushed is not None or own is not None:
        tangent[item] = 0 if pushed is None else pushed  # may be batched even if x is not
    if own is None:
        _write_tangent(target, primal, tangent, level)
    else:
        _follow(target, primal)


@_make_stub(0, 1)
def _put_at(original: Callable, args: tuple, kwargs: dict[str, Any], level: int) -> Tensor:
    target, values, *rest = args
    primal, own = get_primal(target, level), get_tangent(target, level)
    _put_at(original, (primal, get_primal(values, level), *rest), kwargs)
    pushed = get_tangent(values, level)
    if pushed is None:
        pushed = values.new_zeros(values.shape)
    tangent = allocate_tangent(primal, pushed) if own is None else own
    if tangent._array.__class__ is np.ndarray and pushed._array.__class__ is np.ndarray:
        index.put_at(tangent, pushed, *rest, **kwargs)
    else:
        where, accumulate, _ = rest
        tangent.copy_(index.put_at_positions(tangent, pushed, where, accumulate))
    return _write_tangent(target, primal, tangent, level) if own is None \
        else _follow(target, primal)


@_make_stub(0, 1)
def _assign(original: Callable, args: tuple, kwargs: dict[str, Any], level: int) -> Tensor:
    """Assign a composite's result to its first argument, with the tangent."""
    target, y, *rest = args
    primal = get_primal(target, level)
    _assign(original, (primal, get_primal(y, level), *rest), kwargs)
    return _write_tangent(target, primal, get_tangent(y, level), level)


def _prepare_write(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    return carry(args[0], original(*args, **kwargs))


_pushing = LingeringStubs(_list_targets)
Switch.turn = _pushing.turn
