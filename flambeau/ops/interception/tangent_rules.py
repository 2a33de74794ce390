"""Forward-mode rules of operators: multiply the Jacobian by the tangents.

A declared rule (`@op.jvp`) takes precedence. An operator that is linear in its inputs (`linear_in`)
is its own rule. A pointwise operator has a diagonal Jacobian, which equals its transpose, so the
vjp is the rule. For all others, the vjp is linear in the cotangent g, and its vjp with respect to g
is the rule (Bradbury et al.; "double backward").
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...autograd import enable_grad, is_grad_enabled, no_grad
from ...autograd import grad as autograd_grad
from ...autograd.backward import require_gradients
from ...autograd.saved.plan import ATTRIBUTE, DTYPE, FORMAT, INPUT, OUTPUT, SHAPE
from ...autograd.tangents import LEVELS, find_level
from ...autograd.unbroadcast import unbroadcast
from ...tensor.layout import suggest_format
from ...tensor.tensor import Tensor
from ...tensor.windows.batched_window import is_example
from ...tensor.windows.opaque_window import OpaqueWindow
from ..core.operator import Kind, Operator
from . import torch_function


def push(operator: Operator, values: list[Any], tangents: list[Any], y: Any) -> Any:
    """Return the tangents of `y` = operator(*values): a tensor or None, or a tuple of them.

    If the tangents need no derivative, rules run like vjps in backward: unrecorded, on fused
    kernels.
    """
    has_tangents, requires = _find_histories((*values, *tangents))
    if has_tangents:  # from an outer level: kernels without a derivative would drop them
        with enable_grad():
            return apply_rule(operator, values, tangents, y)
    if requires and is_grad_enabled():
        return apply_rule(operator, values, tangents, y)
    enabled, LEVELS.enabled = LEVELS.enabled, False  # nothing below carries a tangent
    try:
        with no_grad():
            return apply_rule(operator, values, tangents, y)
    finally:
        LEVELS.enabled = enabled


def _find_histories(values: Iterable[Any]) -> tuple[bool, bool]:
    """Return (whether any value has a tangent or is a vmap example, whether any requires grad).

    Kernels cannot handle the former.
    """
    has_tangents = requires = False
    for x in values:
        if isinstance(x, Tensor):
            has_tangents = has_tangents or find_level(x) is not None or is_example(x._array)
            requires = requires or x.requires_grad
        elif isinstance(x, (tuple, list, dict)):
            below = _find_histories(x.values() if isinstance(x, dict) else x)
            has_tangents, requires = has_tangents or below[0], requires or below[1]
    return has_tangents, requires


def apply_rule(operator: Operator, values: list[Any], tangents: list[Any], y: Any) -> Any:
    """Return what `push` returns, in the current modes."""
    if operator.jvp is not None:
        return _push_declared(operator, values, tangents, y)
    if operator.kind is Kind.VIEW:
        return _push_view(operator, values, tangents)
    if operator.linear_in:
        return _push_linear(operator, values, tangents, y)
    if not _has_all_derivatives(operator):
        _check_derivatives(operator, tangents, y)
    if _has_complex(values):
        diagonal = operator.kind is Kind.POINTWISE and operator.holomorphic \
            and operator.joint is None
    else:
        diagonal = operator.kind is Kind.POINTWISE
        if isinstance(y, Tensor) and not y.is_complex() and not operator.has_sequence \
                and (y._array.size == 1 or _reduces(operator)):
            return _push_rows(operator, values, tangents, y)
    if diagonal and isinstance(y, Tensor):
        return _push_diagonal(operator, values, tangents, y)
    return _push_by_double_vjp(operator, values, tangents, y)


@functools.cache
def _has_all_derivatives(operator: Operator) -> bool:
    """Return whether the operator has a derivative for every input."""
    return operator.joint is not None or all(
        operator.names[i] in operator.vjps for i in operator.tensor_positions)


def _check_derivatives(operator: Operator, tangents: list[Any], y: Any) -> None:
    """Raise NotImplementedError if an input with a tangent has no derivative.

    Operators with a discrete result need none.
    """
    outputs = y if isinstance(y, tuple) else (y,)
    is_smooth = any(isinstance(t, Tensor) and t._array.dtype.kind in "fcV" for t in outputs)
    if is_smooth and operator.joint is None and any(
            tangents[i] is not None and operator.names[i] not in operator.vjps
            for i in operator.tensor_positions):
        raise _create_missing_rule(operator)


def _create_missing_rule(operator: Operator) -> NotImplementedError:
    return NotImplementedError(
        f"Trying to use forward AD with {operator.name.strip('_')} that does not support it "
        "because it has not been implemented yet.")


def _reduces(operator: Operator) -> bool:
    """Return whether each element of the result comes from a separate row of the only input."""
    return operator.kind is Kind.OPAQUE and operator.single is not None \
        and "dim" in operator.names and "keepdim" in operator.names


def _push_declared(operator: Operator, values: list[Any], tangents: list[Any], y: Any) -> Any:
    """Apply the operator's declared rule; its parameter names say which values it reads."""
    read = []
    for name, position in list_parameters(operator.jvp, operator):
        if position is None:
            source = operator.source_of(name)
            read += _read_values(operator, [source], values, y, ())
        else:
            read.append(tangents[position])
    return operator.jvp(*read)  # type: ignore[misc]


@functools.cache
def list_parameters(rule: Any, operator: Operator) -> list[tuple[str, int | None]]:
    """Return a declared rule's parameters as (name, position of the input if it is a tangent)."""
    result: list[tuple[str, int | None]] = []
    for name in inspect.signature(rule).parameters:
        of = name.removesuffix("_t")
        is_tangent = name.endswith("_t") and of in operator.names
        result.append((name, operator.names.index(of) if is_tangent else None))
    return result


def _has_complex(values: Sequence[Any]) -> bool:
    for v in values:  # noqa: SIM110 - runs for every operator
        if isinstance(v, Tensor) and v._array.dtype.kind == "c":
            return True
    return False


def call_with(operator: Operator, values: list[Any]) -> Any:
    """Call the operator with all its arguments, given in order."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter, value in zip(operator.parameters, values, strict=True):
        if parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            args.extend(value or ((),))  # no axes at all, as in flip
        else:
            args.append(value)
    function = operator.function if not torch_function.STATE.modes \
        else torch_function.find_seen_function(operator)
    return function(*args, **kwargs)


def _push_view(operator: Operator, values: list[Any], tangents: list[Any]) -> Any:
    """Apply the view to the tangent, in the primal's memory layout."""
    changed = list(values)
    for i in operator.tensor_positions:
        if tangents[i] is not None:
            changed[i] = match_strides(values[i], tangents[i])
    return call_with(operator, changed)


def match_strides(x: Tensor, tangent: Tensor) -> Tensor:
    """Return the tangent with the strides of `x`, copied if they differ."""
    strides = x._array.strides
    if tangent._array.strides == strides or 0 in strides or not x._array.size:
        return tangent
    result = tangent.new_empty_strided(x.shape, x.stride())
    return result.copy_(tangent)


@functools.cache
def _parse_terms(operator: Operator) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the inputs in each term of `linear_in`."""
    return tuple(tuple(operator.names.index(name.strip()) for name in term.split("*"))
                 for term in operator.linear_in.split("+"))


def _push_linear(operator: Operator, values: list[Any], tangents: list[Any], y: Any) -> Any:
    """Rule of an operator that is a sum of products of its inputs: apply the product rule."""
    total = push_terms(operator, functools.partial(call_with, operator), values, tangents)
    if total is None and any(tangents[i] is not None for i in operator.tensor_positions):
        return _push_by_double_vjp(operator, values, tangents, y)
    return total


def push_terms(
    operator: Operator, call: Callable[[list[Any]], Any], values: list[Any], tangents: list[Any]
) -> Any:
    """Return the sum of `call` on the values with each factor's tangent in its place.

    None if there is none, or the operator can't be called without its product. `values`: the first
    arguments, at least those without defaults.
    """
    factors, alone = list_terms(operator)
    count = len(values)
    steps = [i for i in factors if i < count and tangents[i] is not None]
    if not steps:
        if factors or not any(tangents[i] is not None for i in alone if i < count):
            return None
        steps = [-1]
    total = None
    for step in steps:
        changed = list(values)
        if step >= 0:
            changed[step] = tangents[step]
        for i in alone:  # in the first step only; as zeros if the argument is mandatory
            if i < count:
                changed[i] = _fill_tangent(values[i], tangents[i], not factors) \
                    if total is None else None
        part = call(changed)
        total = part if total is None else total + part
    return total


@functools.cache
def list_terms(operator: Operator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions in `linear_in` of factors, and of inputs that are a term."""
    terms = _parse_terms(operator)
    return (tuple(i for term in terms if len(term) > 1 for i in term),
            tuple(i for term in terms if len(term) == 1 for i in term))


def _fill_tangent(value: Any, tangent: Any, filled: bool) -> Any:
    """Return an argument's tangent, else zeros if `filled`, else None."""
    if value.__class__ in (tuple, list):
        parts = tangent or [None] * len(value)
        return type(value)(
            [_create_zeros(v) if t is None else t for v, t in zip(value, parts, strict=True)])
    if tangent is not None or not filled:
        return tangent
    return _create_zeros(value) if isinstance(value, Tensor) else 0


def _create_zeros(x: Tensor) -> Tensor:
    if isinstance(x._array, OpaqueWindow):
        return x * 0
    return x.new_zeros(()).expand(x.shape)


def _read_values(
    operator: Operator, sources: Sequence[tuple[int, int]], values: list[Any], y: Any, needs: tuple
) -> list[Any]:
    """Return the values that a vjp reads, for an unrecorded call."""
    result: list[Any] = []
    for kind, position in sources:
        if kind in (ATTRIBUTE, INPUT):
            result.append(values[position])
        elif kind == OUTPUT:
            result.append(y)
        elif kind == SHAPE:
            result.append(_read_shape(values[position]))
        elif kind == DTYPE:
            result.append(values[position].dtype)
        elif kind == FORMAT:
            result.append(suggest_format(values[position]._array))
        else:
            result.append(needs)
    return result


def _read_shape(value: Any) -> Any:
    if value.__class__ in (tuple, list):
        return tuple(v._array.shape for v in value)
    return None if value is None else value._array.shape


def _needs(operator: Operator, positions: Sequence[int]) -> tuple[bool, ...]:
    return tuple(i in positions for i in operator.tensor_positions)


def _compute_cotangents(
    operator: Operator, values: list[Any], positions: list[int], g: Any, y: Any
) -> list[Any]:
    """Return the raw vjps of some inputs; nested lists for sequences of tensors."""
    plan = operator.plans.get(_mask(positions)) or operator.plan(_mask(positions))
    needs = _needs(operator, positions) if plan.joint else ()
    read = _read_values(operator, plan.sources, values, y, needs)
    if plan.joint:
        vjp, indices = plan.entries[0]
        gradients = vjp(g, *[read[i] for i in indices])
        gradients = gradients if gradients.__class__ is tuple else (gradients,)
        return [gradients[operator.tensor_positions.index(i)] for i in positions]
    return [vjp(g, *[read[i] for i in indices]) for vjp, indices in plan.entries]


def _compute_cotangent(operator: Operator, values: list[Any], position: int, g: Any, y: Any) -> Any:
    """Return the raw vjp of an input, or None if it has none."""
    entry = _find_entry(operator, position)
    if entry is None:
        parts = _compute_cotangents(operator, values, [position], g, y)
        return parts[0] if parts else None
    vjp, sources = entry
    return vjp(g, *[values[i] if i is not None else y for i in sources])


@functools.cache
def _find_entry(operator: Operator, position: int) -> tuple[Any, tuple[int | None, ...]] | None:
    """Return the vjp of one input, and the positions of the inputs that it reads, None standing for
    the result; or None if it reads anything else."""
    plan = operator.plan(1 << position)
    if plan.joint or len(plan.entries) != 1:
        return None
    vjp, indices = plan.entries[0]
    read = [plan.sources[i] for i in indices]
    if any(kind not in (ATTRIBUTE, INPUT, OUTPUT) for kind, _ in read):
        return None
    return vjp, tuple(None if kind == OUTPUT else i for kind, i in read)


def _mask(positions: Sequence[int]) -> int:
    return sum(1 << i for i in positions)


def _push_diagonal(operator: Operator, values: list[Any], tangents: list[Any], y: Tensor) -> Any:
    """Rule of a pointwise operator: each vjp multiplies by a diagonal."""
    total = None
    for i in operator.tensor_positions:
        t = tangents[i]
        if t is None:
            continue
        if t._array.dtype is not y._array.dtype:
            t = t.to(y.dtype)
        if t._array.shape != y._array.shape:
            t = t.expand(y.shape)
        part = _compute_cotangent(operator, values, i, t, y)
        if part is None:  # no derivative with respect to this operand
            continue
        if part._array.dtype.kind == "c" and y._array.dtype.kind != "c":
            part = part.real
        total = part if total is None else total + part
    if total is None:
        return None
    if total._array.dtype is not y._array.dtype:
        total = total.to(y.dtype)
    return total if total._array.shape == y._array.shape else total.expand(y.shape)


def _push_rows(operator: Operator, values: list[Any], tangents: list[Any], y: Tensor) -> Any:
    """Rule of an operator whose result elements read disjoint inputs.

    The vjp of ones holds the Jacobian's rows; multiply it by the tangent and sum.
    """
    positions = [i for i in operator.tensor_positions if tangents[i] is not None and (
        operator.joint is not None or operator.names[i] in operator.vjps)]
    parts = _compute_cotangents(
        operator, values, positions, y.new_ones(y.shape), y
    ) if positions else []
    total = None
    for position, part in zip(positions, parts, strict=True):
        if part is None:
            continue
        row = unbroadcast(part, values[position]._array.shape, part._array.dtype)
        t = tangents[position]
        if y._array.size == 1:
            product = (row.reshape(-1) @ t.to(row.dtype).reshape(-1)).reshape(y.shape)
        else:
            dim, keepdim = (values[operator.names.index(n)] for n in ("dim", "keepdim"))
            product = (row * t).sum(dim, keepdim)
        total = product if total is None else total + product
    return total if total is None else total.to(y.dtype)


def _push_by_double_vjp(operator: Operator, values: list[Any], tangents: list[Any], y: Any) -> Any:
    """Rule of any operator: transpose the vjp as a function of the cotangent."""
    several = not isinstance(y, Tensor)
    outputs = list(y) if several else [y]
    positions = [i for i in operator.tensor_positions if tangents[i] is not None and (
        operator.joint is not None or operator.names[i] in operator.vjps)]
    if not positions:
        return None
    recorded = is_grad_enabled() and _find_histories((*values, *tangents)) != (False, False)
    with enable_grad():
        slots = [_require_differentiable(t, i, operator) for i, t in enumerate(outputs)]
        g: Any = tuple(slots) if several else slots[0]
        conjugate = not several and slots[0] is not None and slots[0].is_complex() \
            and operator.holomorphic and operator.joint is None
        actual = _compute_cotangents(operator, values, positions, g.conj() if conjugate else g, y)
        pairs = []
        for position, part in zip(positions, actual, strict=True):
            for x, p, t in _zip_sequences(values[position], part, tangents[position]):
                if p is not None and t is not None and p.requires_grad:
                    p = p.conj() if conjugate else p
                    pairs.append((unbroadcast(p, x._array.shape, x._array.dtype), t))
        if not pairs and not operator.second_order:
            raise _create_missing_rule(operator)  # the vjp records nothing to transpose
        if not pairs:
            return tuple([None if s is None else _create_zeros(s) for s in slots]) if several \
                else _create_zeros(y)
        primals = [s for s in slots if s is not None]
        ps, ts = zip(*pairs, strict=True)
        result = iter(autograd_grad(ps, primals, ts, create_graph=recorded, allow_unused=True))
    pushed = [None if s is None else next(result) for s in slots]
    pushed = [_create_zeros(s) if p is None and s is not None else p
              for s, p in zip(slots, pushed, strict=True)]
    return tuple(pushed) if several else pushed[0]


def _require_differentiable(t: Any, index: int, operator: Operator) -> Any:
    if not isinstance(t, Tensor) or t._array.dtype.kind not in "fcV" \
            or index in operator.constant_outputs:
        return None
    return require_gradients(t.new_zeros(t.shape))


def _zip_sequences(value: Any, part: Any, tangent: Any) -> list[tuple[Any, Any, Any]]:
    if value.__class__ in (tuple, list):
        return list(zip(value, part, tangent, strict=True))
    return [(value, part, tangent)]
