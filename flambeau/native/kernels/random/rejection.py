"""Rejection sampling: the number of words an element consumes depends on the words.

An element consumes uniform numbers from a buffer. If too few are left, the kernel stops before the
element, and continues there when called with more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...loop_ir.expression_builder import Value, apply, constant, where
from ...loop_ir.ir import Affine, Buffer, Kernel, Load, Scalar, Store, Type
from ...loop_ir.statement_program import StatementProgram, Variable

# The states of an element.
DRAWN, TRYING, SHORT = 0, 1, 2
_THIRD, _SQUEEZE = float(np.float32(1 / 3)), float(np.float32(0.0331))


class RejectionProgram(StatementProgram):
    """Draws `y` from `uniforms` (F64).

    `place` (I64): uniform numbers consumed, elements drawn, whether a normal number waits, the
    count of uniform numbers, the count of elements. `waiting` (F64): that normal number.
    """

    def __init__(self, type: Type) -> None:
        super().__init__()
        self.uniforms, self.y = Buffer(Type.F64, "uniforms"), Buffer(type, "y")
        self.place, self.waiting = Buffer(Type.I64, "place"), Buffer(Type.F64, "waiting")
        self.spent, self.element, self.waits, self.available, self.count = (
            self.integer(name, Value(Load(self.place, Affine(i))))
            for i, name in enumerate(("spent", "element", "waits", "available", "count"))
        )
        self.spare = self.real("spare", Value(Load(self.waiting, Affine())))
        self.state = self.integer("state", DRAWN)

    @contextmanager
    def elements(self) -> Iterator[Value]:
        """Context that draws the elements: its body is a trial for the position it yields, repeated
        until every element is accepted or the uniform numbers run out."""
        going = self.integer("going", (self.element.now < self.count.now).cast(Type.I64))
        with self.while_(going.now > 0):
            before = [(v, self.integer("before", v.now)) for v in (self.spent, self.waits)]
            spare = self.real("spare_before", self.spare.now)
            self.state.put(TRYING)
            yield self.element.now
            with self.where(self.state.now == SHORT):
                for variable, value in before:
                    variable.put(value.now)
                self.spare.put(spare.now)
                going.put(0)
            with self.where(self.state.now == DRAWN):
                self.element.put(self.element.now + 1)
                with self.where(self.element.now == self.count.now):
                    going.put(0)

    def accept(self, value: Value) -> None:
        """Write the element."""
        indirect = ((self.element.now.expression, 1),)
        self.write(Store(self.y, Affine(), value.cast(self.y.type).expression, indirect))
        self.state.put(DRAWN)

    @contextmanager
    def with_uniforms(self, count: int) -> Iterator[list[Value]]:
        """A `with` block run if `count` numbers are left, which then count as consumed."""
        suffices = self.spent.now + count <= self.available.now
        has_enough = self.integer("enough", suffices.cast(Type.I64))
        with self.where(has_enough.now > 0):
            indirect = [((self.spent.now + i).expression, 1) for i in range(count)]
            yield [Value(Load(self.uniforms, Affine(), (a,))) for a in indirect]
            self.spent.put(self.spent.now + count)
        with self.where(has_enough.now == 0):
            self.state.put(SHORT)

    def normal(self, target: Variable) -> None:
        """Standard normal into a variable; the second of each pair waits for the next call."""
        waited = self.integer("waited", self.waits.now)
        with self.where(waited.now > 0):
            target.put(self.spare.now)
            self.waits.put(0)
        with self.where(waited.now == 0), self.with_uniforms(2) as (first, second):
            radius = self.real("radius", apply(Scalar.SQRT, apply(Scalar.LOG1P, -second) * -2.0))
            angle = self.real("angle", first * (2 * math.pi))
            target.put(radius.now * apply(Scalar.COS, angle.now))
            self.spare.put(radius.now * apply(Scalar.SIN, angle.now))
            self.waits.put(1)

    def kernel(self, name: str, others: list[Buffer]) -> Kernel:
        """Return the kernel of the recorded statements: place, waiting, uniforms, others, y."""
        for i, variable in enumerate((self.spent, self.element, self.waits)):
            self.write(Store(self.place, Affine(i), variable.now.expression))
        self.write(Store(self.waiting, Affine(), self.spare.now.expression))
        buffers = [self.place, self.waiting, self.uniforms, *others, self.y]
        return Kernel(name, buffers, self.body, [], exact=True)


def gamma(type: Type) -> Kernel:
    """place, waiting, uniforms, shapes, y: gamma numbers of unit scale, F32 or F64.

    Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
    """
    code, shapes = RejectionProgram(type), Buffer(type, "shapes")

    def rounded(x: Value) -> Value:
        return x.cast(type).cast(Type.F64)

    with code.elements() as element:
        shape = Value(Load(shapes, Affine(), ((element.expression, 1),))).cast(Type.F64)
        alpha, scale = code.real("alpha", shape), code.real("scale", 1.0)
        tiny = constant(float(np.finfo(type.value).tiny), Type.F64)
        with code.where(alpha.now == 0):
            code.accept(tiny)
        small = code.integer("small", ((alpha.now < 1) & (alpha.now != 0)).cast(Type.I64))
        with code.where(small.now > 0), code.with_uniforms(1) as (u,):
            power = rounded(constant(1.0, Type.F64) / alpha.now)
            scale.put(apply(Scalar.POW, constant(1.0, Type.F64) - u, power))
            alpha.put(rounded(alpha.now + 1.0))
        d = code.real("d", rounded(alpha.now - _THIRD))
        c = code.real("c", constant(1.0, Type.F64) / apply(Scalar.SQRT, d.now * 9.0))
        with code.while_(code.state.now == TRYING):
            value = _draw_gamma_candidate(code, d, c)
            with code.where(code.state.now == DRAWN):
                drawn = code.real("drawn", scale.now * d.now * value.now)
                code.accept(where(drawn.now > tiny, drawn.now, tiny))
    return code.kernel("gamma", [shapes])


def _draw_gamma_candidate(code: RejectionProgram, d: Variable, c: Variable) -> Variable:
    """A trial; its result counts if the state is then DRAWN."""
    x, y = code.real("x", 0.0), code.real("y", 0.0)
    with code.while_((code.state.now == TRYING) & (y.now <= 0)):
        code.normal(x)
        y.put(c.now * x.now + 1.0)
    v, square = code.real("v", y.now * y.now * y.now), code.real("square", x.now * x.now)
    with code.where(code.state.now == TRYING), code.with_uniforms(1) as (uniform,):
        u = code.real("u", constant(1.0, Type.F64) - uniform)
        below = u.now < constant(1.0, Type.F64) - square.now * _SQUEEZE * square.now
        with code.where(below):
            code.state.put(DRAWN)
        bound = square.now * 0.5 + d.now * (1.0 - v.now + apply(Scalar.LOG, v.now))
        with (code.where(code.state.now == TRYING),
              code.where(apply(Scalar.LOG, u.now) < bound)):
            code.state.put(DRAWN)
    return v
