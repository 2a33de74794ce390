"""Functions that PyTorch keeps for old programs, and those of its C++ engine that
`torch._C._functions` provides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..native.foundation.user_frames import warn
from ..tensor.tensor import Tensor
from .function import Function
from .node import AccumulateGrad as AccumulateGrad
from .node import Node

__all__ = ["Resize", "Type"]


class Type(Function):
    """Casts to a dtype, like `Tensor.to`."""

    @staticmethod
    def forward(ctx: Any, i: Any, dest_type: Any) -> Any:
        warn("`torch.autograd._functions.Type` is deprecated as of PyTorch 2.1, please use "
             "`torch.tensor.to(dtype=dtype)` instead.", FutureWarning)
        ctx.input_type = i.dtype
        return i.type(dest_type)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.to(ctx.input_type), None


class Resize(Function):
    """Changes the shape without changing the number of elements, like `Tensor.reshape`."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, sizes: Sequence[int]) -> Any:
        count = math.prod(sizes)
        if tensor.numel() != count:
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({count} elements in total), but "
                f"the given tensor has a size of {'x'.join(map(str, tensor.size()))} "
                f"({tensor.numel()} elements). autograd's resize can only change the shape of a "
                "given tensor, while preserving the number of elements. "
            )
        ctx.input_sizes = tensor.size()
        return tensor.contiguous().view(*sizes)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.contiguous().view(ctx.input_sizes), None


class _Undefined(Function):
    """Identity whose inputs get no gradient."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        ctx.count = len(inputs)
        return tuple(x.view_as(x) for x in inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None,) * ctx.count


class _Raising(Function):
    """Identity whose backward raises RuntimeError with the caller's message."""

    @staticmethod
    def forward(ctx: Any, message: str, *inputs: Any) -> Any:
        ctx.message = message
        return tuple(x.view_as(x) for x in inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(ctx.message)


class UndefinedGrad(Node):
    """Passes tensors through, and stops their gradients."""

    def __call__(self, *inputs: Tensor) -> Any:
        """Return the tensors, through which no gradients flow."""
        return _unwrap_single(_Undefined.apply(*inputs))


class DelayedError(Node):
    """Passes tensors through, and raises RuntimeError when a gradient arrives."""

    def __init__(self, message: str, num_inputs: int) -> None:
        self._message = message

    def __call__(self, *inputs: Tensor) -> Any:
        """Return the tensors, whose backward raises the error."""
        return _unwrap_single(_Raising.apply(self._message, *inputs))


def _unwrap_single(outputs: tuple) -> Any:
    return outputs[0] if len(outputs) == 1 else outputs
