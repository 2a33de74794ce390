"""TensorFacade: the Tensor methods that optimizer formulas use, on symbolic values.

optim/symbol.py builds loop IR expressions with it, lowering/operators/optimizer_update.py graph
nodes.
"""

from __future__ import annotations

from typing import Any

from .ir import Scalar


class TensorFacade:
    """The Tensor methods of update formulas, derived from four primitives that a subclass defines.

    `_do` applies an operation, `_test` compares, `_choose` selects and `_set` assigns in place.
    Subclasses also define `lerp_`, `maximum` and `copy_`.
    """

    __slots__ = ()

    def _do(self, operation: Scalar, *operands: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._do")

    def _test(self, operation: Scalar, a: Any, b: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._test")

    def _choose(self, condition: Any, a: Any, b: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._choose")

    def _set(self, other: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._set")

    def _scale(self, value: Any, scale: Any) -> Any:
        return value if isinstance(scale, int) and scale == 1 else self._do(
            Scalar.MUL, value, scale
        )

    def __neg__(self) -> Any:
        return self._do(Scalar.NEG, self)

    def add(self, other: Any, *, alpha: Any = 1) -> Any:
        return self._do(Scalar.ADD, self, self._scale(other, alpha))

    def add_(self, other: Any, *, alpha: Any = 1) -> Any:
        return self._set(self.add(other, alpha=alpha))

    def sub(self, other: Any) -> Any:
        return self._do(Scalar.SUB, self, other)

    def mul(self, other: Any) -> Any:
        return self._do(Scalar.MUL, self, other)

    def mul_(self, other: Any) -> Any:
        return self._set(self.mul(other))

    def div(self, other: Any) -> Any:
        return self._do(Scalar.DIV, self, other)

    def addcmul(self, a: Any, b: Any, *, value: Any = 1) -> Any:
        return self.add(self._scale(self._do(Scalar.MUL, a, b), value))

    def addcmul_(self, a: Any, b: Any, *, value: Any = 1) -> Any:
        return self._set(self.addcmul(a, b, value=value))

    def addcdiv_(self, a: Any, b: Any, *, value: Any = 1) -> Any:
        return self._set(self.add(self._do(Scalar.DIV, self._scale(a, value), b)))

    def sqrt(self) -> Any:
        return self._do(Scalar.SQRT, self)

    def abs(self) -> Any:
        return self._do(Scalar.ABS, self)

    def reciprocal(self) -> Any:
        return self._do(Scalar.DIV, 1.0, self)

    def clamp_(self, low: Any, high: Any) -> Any:
        raised = self._choose(self._test(Scalar.LT, self, low), low, self)
        return self._set(self._choose(self._test(Scalar.GT, raised, high), high, raised))

    def sign(self) -> Any:
        positive = self._choose(self._test(Scalar.GT, self, 0.0), 1.0, 0.0)
        return self._choose(self._test(Scalar.LT, self, 0.0), -1.0, positive)

    def gt(self, other: Any) -> Any:
        return self._test(Scalar.GT, self, other)

    def lt(self, other: Any) -> Any:
        return self._test(Scalar.LT, self, other)

    def eq(self, other: Any) -> Any:
        return self._test(Scalar.EQ, self, other)

    def masked_fill(self, condition: Any, value: Any) -> Any:
        return self._choose(condition, value, self)
