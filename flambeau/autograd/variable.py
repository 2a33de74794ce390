"""Variable: the old name for a tensor that may require grad."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from .backward import require_gradients
from .engine import is_checkpoint_valid, queue_callback


class _ExecutionEngine:
    """The part of PyTorch's engine object that libraries use."""

    queue_callback = staticmethod(queue_callback)
    is_checkpoint_valid = staticmethod(is_checkpoint_valid)


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, **options: Any) -> Tensor:
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {type(data).__name__}"
            )
        return require_gradients(data.detach(), requires_grad)


class Variable(metaclass=_VariableType):
    """`Variable(tensor, requires_grad=True)` is a Tensor.

    >>> type(torch.autograd.Variable(torch.ones(2), requires_grad=True)) is torch.Tensor
    True
    """

    _execution_engine = _ExecutionEngine()
