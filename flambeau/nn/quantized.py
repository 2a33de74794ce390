"""torch.nn.quantized: functions as modules, which quantization replaces by quantized versions."""

from __future__ import annotations

from typing import Any, NoReturn

from .. import ops
from ..tensor import Tensor
from .module import Module
from .modules import Identity

__all__ = ["FloatFunctional"]
__path__: list[str] = []  # a package in PyTorch


class FloatFunctional(Module):
    """Additions, products and concatenations of a floating-point model.

    >>> torch.nn.quantized.FloatFunctional().add_relu(torch.tensor([1.]), torch.tensor([-3.]))
    tensor([0.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Tensor) -> NoReturn:
        """Raise RuntimeError: call the other methods instead."""
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying "
            "operation"
        )

    def add(self, x: Tensor, y: Any) -> Tensor:
        """x + y."""
        return self.activation_post_process(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y for a number y, without observer."""
        return x + y

    def mul(self, x: Tensor, y: Any) -> Tensor:
        """x * y."""
        return self.activation_post_process(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x * y for a number y, without observer."""
        return x * y

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """Concatenate tensors along `dim`."""
        return self.activation_post_process(ops.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)."""
        return self.activation_post_process(ops.relu(x + y))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        return self.activation_post_process(x @ y)
