"""Pointwise operators: every axis of the result may be cut, and the operands follow.

Sums pass through linear operators: of one operand that is partial, or of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..placement_types import Placement, Replicate, Shard
from ..propagation import Operation, Rule, Strategy, partial_sum

def broadcast_shape(operation: Operation) -> list[int]:
    """Return the shape to which the operands are broadcast."""
    ndim = max(spec.ndim for spec in operation.inputs)
    sizes = [1] * ndim
    for spec in operation.inputs:
        for dim, size in enumerate(spec.shape, ndim - spec.ndim):
            if size != 1:
                sizes[dim] = size
    return sizes


def cut_operands(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of the result's axes. Operands that are broadcast along them stay whole."""
    sizes = broadcast_shape(operation)
    for dim in range(len(sizes)):
        inputs: list[Placement] = []
        for spec in operation.inputs:
            own = dim - len(sizes) + spec.ndim
            is_cut = own >= 0 and (spec.shape[own] == sizes[dim])
            inputs.append(Shard(own) if is_cut else Replicate())
        yield Strategy(Shard(dim), tuple(inputs))


def _add_partial(operation: Operation) -> Iterator[Strategy]:
    """Yield the strategies of operators that are linear in all operands together."""
    yield from cut_operands(operation)
    if len(operation.inputs) < 2:
        return
    for placement in _sums_of(operation):
        yield Strategy(placement, (placement,) * len(operation.inputs))


def _multiply_partial(operation: Operation) -> Iterator[Strategy]:
    """Yield the strategies of operators that are linear in each operand."""
    yield from cut_operands(operation)
    for placement in _sums_of(operation):
        for i in range(len(operation.inputs)):
            inputs: list[Placement] = [Replicate()] * len(operation.inputs)
            inputs[i] = placement
            yield Strategy(placement, tuple(inputs))


def _divide_partial(operation: Operation) -> Iterator[Strategy]:
    """Yield the strategies of operators that are linear in the first operand only."""
    yield from cut_operands(operation)
    if operation.args and operation.args[0] is not operation.inputs[0]:
        return
    for placement in _sums_of(operation):
        rest = (Replicate(),) * (len(operation.inputs) - 1)
        yield Strategy(placement, (placement, *rest))


def _sums_of(operation: Operation) -> list[Placement]:
    """Return the sums and averages among the inputs' placements along the mesh axis."""
    placements = [spec.placements[operation.axis] for spec in operation.inputs]
    return list(dict.fromkeys(p for p in placements if partial_sum(p)))


POINTWISE = Rule(cut_operands, accepts_empty=True)
_RULES = {
    "add sub rsub": Rule(_add_partial, accepts_empty=True),
    "mul": Rule(_multiply_partial, accepts_empty=True),
    "div true_divide neg positive _to_copy detach alias real imag conj _conj": Rule(
        _divide_partial, accepts_empty=True),
}

# Operators without a rule of their own that compute each element from one of each operand.
_NAMES = """
abs absolute acos acosh addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh
asin asinh atan atan2 atanh bernoulli bernoulli_ bitwise_and bitwise_left_shift bitwise_not
bitwise_or bitwise_right_shift bitwise_xor cauchy_ ceil celu celu_backward clamp clamp_max clamp_min
clip clone contiguous copy copy_ copysign cos cosh deg2rad digamma elu elu_backward empty_like eq
erf erfc erfinv exp exp2 expm1 exponential_ fill fill_ float_power floor floor_divide fmax fmin fmod
frac full_like gcd ge gelu gelu_backward geometric_ greater greater_equal gt hardshrink
hardshrink_backward hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh
hardtanh_backward heaviside hypot i0 igamma igammac isfinite isinf isnan isneginf
isposinf isreal lcm ldexp le leaky_relu leaky_relu_backward lerp less less_equal lgamma log log10
log1p log2 log_normal_ log_sigmoid_backward log_sigmoid_forward logaddexp logaddexp2 logical_and
logical_not logical_or logical_xor logit lt masked_fill maximum minimum mish mish_backward
mvlgamma nan_to_num native_dropout ne nextafter normal_ not_equal ones_like polygamma pow prelu
rad2deg rand_like randint_like randn_like random_ reciprocal relu relu6 remainder round rrelu rsqrt
selu sgn sigmoid sigmoid_backward sign signbit silu silu_backward sin sinc sinh softplus
softplus_backward softshrink softshrink_backward special_entr special_erfcx special_i0e special_i1
special_i1e special_log_ndtr special_ndtr special_ndtri special_xlog1py special_zeta sqrt square
tan tanh tanh_backward threshold threshold_backward trunc uniform_ where xlogy zero_ zeros_like
""".split()

RULES: dict[str, Rule] = dict.fromkeys(_NAMES, POINTWISE)
RULES |= {name: rule for names, rule in _RULES.items() for name in names.split()}
