"""How each operator pushes tangents forward: its Jacobian times them.

An operator that is linear in its inputs is its own rule. A pointwise one has a diagonal Jacobian,
which is its own transpose: the vjp is the rule. For every other, the vjp is linear in the cotangent
g, and its own vjp with respect to g is the rule (Bradbury et al.; "double backward").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd import enable_grad, is_grad_enabled
from ...autograd import grad as autograd_grad
from ...autograd.node import restored
from ...autograd.save_plan import ATTRIBUTE, DTYPE, INPUT, OUTPUT, SHAPE
from ...tensor.tensor import Tensor
from ..core.registry import Kind, Operator

# Operators that are linear in all their tensor inputs taken together (or in the only one).
LINEAR = frozenset("""
    clone _to_copy flip roll repeat sum mean cumsum tril triu diag_embed trace constant_pad_nd
    _padded _padded_adjoint _folded _im2col _col2im cat stack complex _fft_c2c _fft_r2c _fft_c2r
    _fft_resized _adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d _avg_pool1d
    _avg_pool2d _avg_pool3d _resampled _resampled_adjoint _pixels _pixels_adjoint _embedding
    _strided_adjoint
""".split())
# Operators that are linear in each of these inputs, the others fixed; `+` names one added to that.
MULTILINEAR = {
    "matmul": "input other", "linear": "input weight +bias", "linalg_cross": "input other",
    "_convolution": "input weight +bias", "_rows_product": "input weight",
    "_transposed_convolution": "input weight +bias", "_convolution_weight": "input g",
}
# Operators that are linear in this input, the others being places.
LINEAR_IN = {
    "gather": "input", "index_select": "input", "take": "input", "index": "input",
    "index_adjoint": "g", "_masked_select": "input", "_max_pool_picked": "input",
}


def push(operator: Operator, values: list[Any], tangents: list[Any], y: Any) -> Any:
    """The tangents of `y` = operator(*values): a tensor or None, or a tuple of them."""
    name = operator.name
    if operator.kind is Kind.VIEW or name in LINEAR:
        return _linear(operator, values, tangents)
    if name in LINEAR_IN and LINEAR_IN[name] in operator.names:
        return _replace(operator, values, operator.names.index(LINEAR_IN[name]), tangents)
    if name in MULTILINEAR and {
        n.lstrip("+") for n in MULTILINEAR[name].split()} <= set(operator.names):
        return _multilinear(operator, values, tangents)
    if operator.kind is Kind.POINTWISE and isinstance(y, Tensor) and (
        not _complex(values) or (operator.holomorphic and operator.joint is None)
    ):
        return _diagonal(operator, values, tangents, y)
    return _transpose(operator, values, tangents, y)


def _complex(values: Sequence[Any]) -> bool:
    return any(isinstance(v, Tensor) and v.is_complex() for v in values)


def _call(operator: Operator, values: list[Any]) -> Any:
    args, named = [], {}
    for parameter, value in zip(operator.parameters, values, strict=True):
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            args.extend(value)
        else:
            args.append(value)
    return operator.function(*args, **named)


def _linear(operator: Operator, values: list[Any], tangents: list[Any]) -> Any:
    changed = list(values)
    if "value" in operator.names:  # what is put around the elements has no tangent
        changed[operator.names.index("value")] = 0
    for i in operator.tensor_positions:
        value, tangent = values[i], tangents[i]
        if value.__class__ in (tuple, list):
            parts = tangent or [None] * len(value)
            changed[i] = type(value)(
                [_zeros(v) if t is None else t for v, t in zip(value, parts, strict=True)])
        elif isinstance(value, Tensor) and value._array.dtype.kind in "fcV":
            changed[i] = _zeros(value) if tangent is None else tangent
    return _call(operator, changed)


def _replace(operator: Operator, values: list[Any], position: int, tangents: list[Any]) -> Any:
    if tangents[position] is None:
        return None
    changed = list(values)
    changed[position] = tangents[position]
    return _call(operator, changed)


def _multilinear(operator: Operator, values: list[Any], tangents: list[Any]) -> Any:
    names = MULTILINEAR[operator.name].split()
    added = [operator.names.index(n[1:]) for n in names if n[0] == "+"]
    total = None
    for name in names:
        position = operator.names.index(name.lstrip("+"))
        if tangents[position] is None or name[0] == "+":
            continue
        changed = list(values)
        changed[position] = tangents[position]
        for other in added:
            changed[other] = tangents[other] if total is None else None
        part = _call(operator, changed)
        total = part if total is None else total + part
    if total is None:
        return _transpose(operator, values, tangents, _call(operator, values))
    return total


def _zeros(x: Tensor) -> Tensor:
    return x.new_zeros(()).expand(x.shape)


def _values(
    operator: Operator, sources: Sequence[tuple[int, int]], values: list[Any], y: Any, needs: tuple
) -> list[Any]:
    """What a vjp reads, of a call that is not recorded."""
    result: list[Any] = []
    for kind, position in sources:
        if kind in (ATTRIBUTE, INPUT):
            result.append(values[position])
        elif kind == OUTPUT:
            result.append(y)
        elif kind == SHAPE:
            result.append(_shape(values[position]))
        elif kind == DTYPE:
            result.append(values[position].dtype)
        else:
            result.append(needs)
    return result


def _shape(value: Any) -> Any:
    if value.__class__ in (tuple, list):
        return tuple(v._array.shape for v in value)
    return None if value is None else value._array.shape


def _needs(operator: Operator, positions: Sequence[int]) -> tuple[bool, ...]:
    return tuple(i in positions for i in operator.tensor_positions)


def _cotangents(
    operator: Operator, values: list[Any], positions: list[int], g: Any, y: Any
) -> list[Any]:
    """The raw vjp of some inputs; a list within for a sequence of tensors."""
    plan = operator.plans.get(_mask(positions)) or operator.plan(_mask(positions))
    read = _values(operator, plan.sources, values, y, _needs(operator, positions))
    if plan.joint:
        vjp, indices = plan.entries[0]
        every = vjp(g, *[read[i] for i in indices])
        every = every if every.__class__ is tuple else (every,)
        return [every[operator.tensor_positions.index(i)] for i in positions]
    return [vjp(g, *[read[i] for i in indices]) for vjp, indices in plan.entries]


def _mask(positions: Sequence[int]) -> int:
    return sum(1 << i for i in positions)


def _diagonal(operator: Operator, values: list[Any], tangents: list[Any], y: Tensor) -> Any:
    """The rule of a pointwise operator: each vjp is a product with a diagonal."""
    total = None
    for i in operator.tensor_positions:
        t = tangents[i]
        if t is None:
            continue
        if t.dtype != y.dtype:
            t = t.to(y.dtype)
        if t.shape != y.shape:
            t = t.expand(y.shape)
        parts = _cotangents(operator, values, [i], t, y)
        if not parts or parts[0] is None:  # no derivative with respect to this operand
            continue
        part = parts[0]
        if part.is_complex() and not y.is_complex():
            part = part.real
        total = part if total is None else total + part
    if total is None:
        return None
    if total.dtype != y.dtype:
        total = total.to(y.dtype)
    return total if total.shape == y.shape else total.expand(y.shape)


def _transpose(operator: Operator, values: list[Any], tangents: list[Any], y: Any) -> Any:
    """The rule of any operator: the vjp, as a function of the cotangent, transposed."""
    several = not isinstance(y, Tensor)
    outputs = list(y) if several else [y]
    positions = [i for i in operator.tensor_positions if tangents[i] is not None and (
        operator.joint is not None or operator.names[i] in operator.vjps)]
    if not positions:
        return None
    recorded = is_grad_enabled() and _requires_grad((*values, *tangents))
    with enable_grad():
        slots = [_slot(t, i, operator) for i, t in enumerate(outputs)]
        g: Any = tuple(slots) if several else slots[0]
        conjugate = not several and slots[0] is not None and slots[0].is_complex() \
            and operator.holomorphic and operator.joint is None
        actual = _cotangents(operator, values, positions, g.conj() if conjugate else g, y)
        pairs = []
        for position, part in zip(positions, actual, strict=True):
            for x, p, t in _sequences(values[position], part, tangents[position]):
                if p is not None and t is not None and p.requires_grad:
                    p = p.conj() if conjugate else p
                    pairs.append((restored(p, x._array.shape, x._array.dtype), t))
        if not pairs:
            return tuple([None if s is None else _zeros(s) for s in slots]) if several \
                else _zeros(y)
        wanted = [s for s in slots if s is not None]
        ps, ts = zip(*pairs, strict=True)
        result = iter(autograd_grad(ps, wanted, ts, create_graph=recorded, allow_unused=True))
    pushed = [None if s is None else next(result) for s in slots]
    pushed = [_zeros(s) if p is None and s is not None else p
              for s, p in zip(slots, pushed, strict=True)]
    return tuple(pushed) if several else pushed[0]


def _requires_grad(values: Sequence[Any]) -> bool:
    return any(_requires_grad(v) if v.__class__ in (tuple, list)
               else isinstance(v, Tensor) and v.requires_grad for v in values)


def _slot(t: Any, index: int, operator: Operator) -> Any:
    if not isinstance(t, Tensor) or t._array.dtype.kind not in "fcV" \
            or index in operator.constant_outputs:
        return None
    return t.new_zeros(t.shape).requires_grad_()


def _sequences(value: Any, part: Any, tangent: Any) -> list[tuple[Any, Any, Any]]:
    if value.__class__ in (tuple, list):
        return list(zip(value, part, tangent, strict=True))
    return [(value, part, tangent)]
