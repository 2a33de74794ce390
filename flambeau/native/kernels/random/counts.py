"""Poisson and binomial counts by rejection sampling, as in tensor/random/rejection_sampling.py."""

from __future__ import annotations

from collections.abc import Callable

from ...loop_ir.expression_builder import Value, apply, constant, where
from ...loop_ir.ir import Affine, Buffer, Kernel, Load, Scalar, Type
from ...loop_ir.statement_program import Variable
from ...loop_ir.stirling_tail import STIRLING_TAIL
from .rejection import TRYING, RejectionProgram


def _create_constant(x: float) -> Value:
    return constant(x, Type.F64)


def _log(x: Value) -> Value:
    return apply(Scalar.LOG, x)


def _floor(x: Value) -> Value:
    return apply(Scalar.FLOOR, x)


def _define_flag(code: RejectionProgram, name: str, condition: Value) -> Variable:
    return code.integer(name, condition.cast(Type.I64))


def poisson(type: Type) -> Kernel:
    """place, waiting, uniforms, rates, y: Poisson counts; rates are finite and not negative."""
    code, rates = RejectionProgram(type), Buffer(type, "rates")
    with code.elements() as element:
        loaded = Value(Load(rates, Affine(), ((element.expression, 1),)))
        rate = code.real("rate", loaded.cast(Type.F64))
        with code.where(rate.now == 0):
            code.accept(_create_constant(0.0))
        with code.where((rate.now > 0) & (rate.now < 10)):
            _draw_poisson_by_product(code, rate)
        with code.where(rate.now >= 10):
            _draw_poisson_by_rejection(code, rate)
    return code.kernel("poisson", [rates])


def _draw_poisson_by_product(code: RejectionProgram, rate: Variable) -> None:
    """Multiply uniform numbers until the product is small."""
    count, product = code.real("count", 0.0), code.real("product", 1.0)
    bound = code.real("bound", apply(Scalar.EXP, -rate.now))
    with code.while_(code.state.now == TRYING), code.with_uniforms(1) as (uniform,):
        product.put(product.now * uniform)
        with code.where(product.now <= bound.now):
            code.accept(count.now)
        count.put(count.now + 1.0)


def _draw_poisson_by_rejection(code: RejectionProgram, rate: Variable) -> None:
    """Hoermann's transformed rejection, "The transformed rejection method for generating Poisson
    random variables", 1993."""
    b = code.real("b", apply(Scalar.SQRT, rate.now) * 2.53 + 0.931)
    a = code.real("a", b.now * 0.02483 + -0.059)
    inverse_alpha = code.real("inverse_alpha", _create_constant(1.1328) / (b.now - 3.4) + 1.1239)
    quick = code.real("quick", _create_constant(0.9277) - _create_constant(3.6224) / (b.now - 2.0))
    log_rate = code.real("log_rate", _log(rate.now))
    with code.while_(code.state.now == TRYING), code.with_uniforms(2) as (first, second):
        u, v = code.real("u", first - 0.5), code.real("v", second)
        us = code.real("us", _create_constant(0.5) - abs(u.now))
        k = code.real("k", _floor((a.now * 2.0 / us.now + b.now) * u.now + rate.now + 0.43))
        with code.where((us.now >= 0.07) & (v.now <= quick.now)):
            code.accept(k.now)
        plausible = (k.now >= 0) & ((us.now >= 0.013) | (v.now <= us.now)) & (us.now != 0)
        with code.where((code.state.now == TRYING) & plausible):
            density = -rate.now + k.now * log_rate.now - apply(Scalar.LGAMMA, k.now + 1.0)
            drawn = _log(v.now) + _log(inverse_alpha.now) - _log(
                a.now / (us.now * us.now) + b.now)
            with code.where((v.now == 0) | (drawn <= density)):
                code.accept(k.now)


def binomial(type: Type) -> Kernel:
    """place, waiting, uniforms, counts, probabilities, y: successes among finite counts of trials,
    F32 or F64; parameters are rounded to this type, as the loop does."""
    code, counts, probabilities = RejectionProgram(type), *(
        Buffer(type, name) for name in ("counts", "probabilities"))

    def rounded(x: Value) -> Value:
        return x.cast(type).cast(Type.F64)

    with code.elements() as element:
        indirect = ((element.expression, 1),)
        count, p = (code.real(name, Value(Load(buffer, Affine(), indirect)).cast(Type.F64))
                    for name, buffer in (("count", counts), ("p", probabilities)))
        with code.where((count.now <= 0) | (p.now <= 0) | (p.now != p.now)):
            code.accept(_create_constant(0.0))
        with code.where((count.now > 0) & (p.now >= 1)):
            code.accept(count.now)
        with code.where(code.state.now == TRYING):
            turned = _define_flag(code, "turned", p.now > 0.5)
            with code.where(turned.now > 0):
                p.put(rounded(_create_constant(1.0) - p.now))
            successes = code.real("successes", 0.0)
            is_large = _define_flag(code, "many", rounded(count.now * p.now) >= 10)

            def accept(value: Value) -> None:
                code.accept(where(turned.now > 0, count.now - value, value))

            with code.where(is_large.now == 0):
                _draw_binomial_by_waiting(code, count, p, successes, rounded, accept)
            with code.where(is_large.now > 0):
                _draw_binomial_by_rejection(code, count, p, rounded, accept)
    return code.kernel("binomial", [counts, probabilities])


def _draw_binomial_by_waiting(
    code: RejectionProgram, count: Variable, p: Variable, successes: Variable,
    rounded: Callable[[Value], Value], accept: Callable[[Value], None],
) -> None:
    """Geometric waiting times until they pass `count`."""
    log_failure = code.real("log_failure", rounded(apply(Scalar.LOG1P, -p.now)))
    waited = code.real("waited", 0.0)
    with code.while_(code.state.now == TRYING), code.with_uniforms(1) as (uniform,):
        # The logarithm of 0 is endless, and so is this wait.
        waited.put(waited.now + apply(Scalar.CEIL, _log(uniform) / log_failure.now))
        with code.where(waited.now > count.now):
            accept(successes.now)
        successes.put(successes.now + 1.0)


def _draw_binomial_by_rejection(
    code: RejectionProgram, count: Variable, p: Variable,
    rounded: Callable[[Value], Value], accept: Callable[[Value], None],
) -> None:
    """Hoermann's BTRS, "The generation of binomial random variates", 1993."""
    failure = code.real("failure", rounded(_create_constant(1.0) - p.now))
    mean = code.real("mean", rounded(count.now * p.now))
    deviation = code.real(
        "deviation", rounded(apply(Scalar.SQRT, rounded(mean.now * failure.now))))
    b = code.real("b", deviation.now * 2.53 + 1.15)
    a = code.real("a", b.now * 0.0248 + -0.0873 + p.now * 0.01)
    c = code.real("c", mean.now + 0.5)
    quick = code.real("quick", _create_constant(0.92) - _create_constant(4.2) / b.now)
    odds = code.real("odds", rounded(p.now / failure.now))
    alpha = code.real("alpha", (_create_constant(5.1) / b.now + 2.83) * deviation.now)
    mode = code.real("mode", _floor(rounded(rounded(count.now + 1.0) * p.now)))
    with code.while_(code.state.now == TRYING), code.with_uniforms(2) as (first, second):
        u, v = code.real("u", first - 0.5), code.real("v", second)
        us = code.real("us", _create_constant(0.5) - abs(u.now))
        k = code.real("k", _floor((a.now * 2.0 / us.now + b.now) * u.now + c.now))
        possible = _define_flag(
            code, "possible", (us.now != 0) & (k.now >= 0) & (k.now <= count.now)
        )
        with code.where((possible.now > 0) & (us.now >= 0.07) & (v.now <= quick.now)):
            accept(k.now)
            possible.put(0)
        with code.where(possible.now > 0):
            bound = _compute_binomial_bound(code, k, count, mode, odds)
            drawn = _log(v.now * alpha.now / (a.now / (us.now * us.now) + b.now))
            with code.where((v.now == 0) | (drawn <= bound.now)):
                accept(k.now)


def _compute_binomial_bound(
    code: RejectionProgram, k: Variable, count: Variable, mode: Variable, odds: Variable
) -> Variable:
    """The logarithm below which k is accepted."""
    failures, mode_failures = count.now - k.now, count.now - mode.now
    bound = code.real("bound", (mode.now + 0.5) * _log(
        (mode.now + 1.0) / (odds.now * (mode_failures + 1.0))))
    bound.put(bound.now + (count.now + 1.0) * _log((mode_failures + 1.0) / (failures + 1.0)))
    bound.put(bound.now + (k.now + 0.5) * _log(odds.now * (failures + 1.0) / (k.now + 1.0)))
    for sign, value in ((1.0, mode.now), (1.0, mode_failures), (-1.0, k.now), (-1.0, failures)):
        tail = code.real("tail", _stirling_tail(value))
        bound.put(bound.now + tail.now * sign)
    return bound


def _stirling_tail(k: Value) -> Value:
    square = (k + 1.0) * (k + 1.0)
    c1, c3, c5 = (_create_constant(1.0 / n) for n in (12, 360, 1260))
    tail = (c1 - (c3 - c5 / square) / square) / (k + 1.0)
    for n, value in enumerate(STIRLING_TAIL):
        tail = where(k == n, value, tail)
    return tail
