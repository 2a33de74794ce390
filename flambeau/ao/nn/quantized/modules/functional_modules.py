"""Sums, products and concatenations as modules, so that their results can be observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..... import ops
from .....nn import functional as F
from .....nn.module import Module
from .....nn.modules import Identity
from .....ops.quantized import arithmetic
from .....tensor import Tensor
from .scaled_output import ScaledOutput


class FloatFunctional(Module):
    """Operations whose results are observed: `self.add(x, y)` in place of `x + y`.

    >>> torch.ao.nn.quantized.FloatFunctional().add(torch.ones(1), torch.ones(1))
    tensor([2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Any = Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Raise RuntimeError: call its methods instead."""
        raise RuntimeError("FloatFunctional is not intended to use the forward. Please use the "
                           "underlying operation")

    def _finish(self, y: Tensor) -> Tensor:
        result: Tensor = self.activation_post_process(y)
        return result

    def add(self, x: Any, y: Any) -> Tensor:
        """The sum of two tensors."""
        return self._finish(ops.add(_unwrap(x), _unwrap(y)))

    def add_scalar(self, x: Any, y: float) -> Tensor:
        """The sum of a tensor and a number."""
        return ops.add(x, y)

    def mul(self, x: Any, y: Any) -> Tensor:
        """The product of two tensors."""
        return self._finish(ops.mul(_unwrap(x), _unwrap(y)))

    def mul_scalar(self, x: Any, y: float) -> Tensor:
        """The product of a tensor and a number."""
        return ops.mul(x, y)

    def cat(self, x: Sequence[Any], dim: int = 0) -> Tensor:
        """Concatenate tensors."""
        return self._finish(ops.cat([_unwrap(t) for t in x], dim))

    def add_relu(self, x: Any, y: Any) -> Tensor:
        """The sum of two tensors, then relu."""
        return self._finish(F.relu(ops.add(_unwrap(x), _unwrap(y))))

    def matmul(self, x: Any, y: Any) -> Tensor:
        """The product of two matrices."""
        return self._finish(ops.matmul(_unwrap(x), _unwrap(y)))


def _unwrap(x: Any) -> Any:
    return x.dequantize() if isinstance(x, Tensor) and x.is_quantized else x


class FXFloatFunctional(FloatFunctional):
    """FloatFunctional without observers: its graphs are observed like those of plain operators."""

    def add(self, x: Any, y: Any) -> Tensor:
        """The sum of two tensors."""
        return ops.add(x, y)

    def mul(self, x: Any, y: Any) -> Tensor:
        """The product of two tensors."""
        return ops.mul(x, y)

    def cat(self, x: Sequence[Any], dim: int = 0) -> Tensor:
        """Concatenate tensors."""
        result: Tensor = ops.cat(x, dim=dim)
        return result

    def add_relu(self, x: Any, y: Any) -> Tensor:
        """The sum of two tensors, then relu."""
        return ops.relu(ops.add(x, y))

    def matmul(self, x: Any, y: Any) -> Tensor:
        """The product of two matrices."""
        return ops.matmul(x, y)


class QFunctional(ScaledOutput, FloatFunctional):
    """FloatFunctional on quantized tensors, with results of a given scale and zero point."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0

    def add(self, x: Any, y: Any) -> Tensor:
        """The sum of two tensors."""
        return self._finish(arithmetic.add(x, y, self.scale, self.zero_point))

    def add_scalar(self, x: Any, y: float) -> Tensor:
        """The sum of a tensor and a number, with the tensor's scale."""
        result: Tensor = arithmetic.add_scalar(x, y)
        return result

    def mul(self, x: Any, y: Any) -> Tensor:
        """The product of two tensors."""
        return self._finish(arithmetic.mul(x, y, self.scale, self.zero_point))

    def mul_scalar(self, x: Any, y: float) -> Tensor:
        """The product of a tensor and a number, with the scale multiplied by it."""
        result: Tensor = arithmetic.mul_scalar(x, y)
        return result

    def cat(self, x: Sequence[Any], dim: int = 0) -> Tensor:
        """Concatenate tensors."""
        return self._finish(arithmetic.cat(x, dim, self.scale, self.zero_point))

    def add_relu(self, x: Any, y: Any) -> Tensor:
        """The sum of two tensors, then relu."""
        return self._finish(arithmetic.add_relu(x, y, self.scale, self.zero_point))

    def matmul(self, x: Any, y: Any) -> Tensor:
        """The product of two matrices."""
        result: Tensor = arithmetic.matmul(x, y, self.scale, self.zero_point)
        return result

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"scale={self.scale}, zero_point={self.zero_point}"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Convert an observed FloatFunctional."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        result = cls()
        result.scale, result.zero_point = float(scale), int(zero_point)
        return result
