"""What a tensor is, asked as functions: torch.is_complex(x) and the like."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from .registry import publish


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex.

    >>> torch.is_complex(torch.tensor([1j]))
    True
    """
    return input.is_complex()


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is floating.

    >>> torch.is_floating_point(torch.tensor([1]))
    False
    """
    return input.is_floating_point()


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers.

    >>> torch.is_signed(torch.tensor([1]))
    True
    """
    return input.is_signed()


def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a lazy conjugate: never."""
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a lazy negative: never."""
    return input.is_neg()


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


def is_distributed(input: Tensor) -> bool:
    """Whether the tensor is spread over processes: never."""
    return False


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero; RuntimeError when there is not just one.

    >>> torch.is_nonzero(torch.tensor([3.]))
    True
    """
    if input.numel() != 1:
        kind = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    return bool(input.item())


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    >>> torch.is_same_size(torch.zeros(2), torch.zeros(3))
    False
    """
    return input.shape == other.shape


def numel(input: Tensor) -> int:
    """How many elements there are.

    >>> torch.numel(torch.zeros(2, 3))
    6
    """
    return input.numel()


def get_device(input: Tensor) -> int:
    """The index of the GPU: -1 on the CPU."""
    return input.get_device()


def detach(input: Tensor) -> Tensor:
    """The same memory without history.

    >>> torch.detach(torch.tensor([1.], requires_grad=True) * 2)
    tensor([2.])
    """
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """Cuts the tensor from its history, in place."""
    return input.detach_()


def _publish() -> None:
    functions: list[Any] = [
        is_complex, is_floating_point, is_signed, is_conj, is_neg, is_inference, is_distributed,
        is_nonzero, is_same_size, numel, get_device, detach, detach_,
    ]  # fmt: skip
    for function in functions:
        publish(function, (function.__name__,), ("torch",))
    for function in (is_nonzero, is_same_size, is_distributed):
        publish(function, (function.__name__,), ("Tensor",))


_publish()
