"""Properties of tensors as functions: torch.is_complex(x) and the like."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...tensor.layout import memory_format, strided
from ...tensor.tensor import Tensor
from .errors import answer_failed, wrap_with_explanation
from .operator import publish
from .registry import answers_from_values, writes_by_operators


def is_complex(input: Tensor) -> bool:
    """Return whether the dtype is complex.

    >>> torch.is_complex(torch.tensor([1j]))
    True
    """
    try:
        return input.is_complex()
    except AttributeError as error:
        return answer_failed(error, "is_complex", is_complex, (input,))


def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype is floating point.

    >>> torch.is_floating_point(torch.tensor([1]))
    False
    """
    try:
        return input.is_floating_point()
    except AttributeError as error:
        return answer_failed(error, "is_floating_point", is_floating_point, (input,))


def is_signed(input: Tensor) -> bool:
    """Return whether the dtype can hold negative numbers.

    >>> torch.is_signed(torch.tensor([1]))
    True
    """
    return input.is_signed()


def is_conj(input: Tensor) -> bool:
    """Return whether the tensor is a lazy conjugate; always False.

    >>> torch.is_conj(torch.tensor([1j]))
    False
    """
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Return whether the tensor is a lazy negation; always False.

    >>> torch.is_neg(torch.zeros(2))
    False
    """
    return input.is_neg()


def is_inference(input: Tensor) -> bool:
    """Return whether the tensor was created in inference mode.

    >>> torch.is_inference(torch.zeros(2))
    False
    """
    return input.is_inference()


def is_distributed(input: Tensor) -> bool:
    """Return whether the tensor is distributed over processes; always False.

    >>> torch.is_distributed(torch.zeros(2))
    False
    """
    return False


@answers_from_values
def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element is nonzero; RuntimeError unless there is exactly one.

    >>> torch.is_nonzero(torch.tensor([3.]))
    True
    """
    if input.numel() != 1:
        kind = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    return bool(input.item())


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether both tensors have the same shape.

    >>> torch.is_same_size(torch.zeros(2), torch.zeros(3))
    False
    """
    return input.shape == other.shape


def numel(input: Tensor) -> int:
    """Return the number of elements.

    >>> torch.numel(torch.zeros(2, 3))
    6
    """
    try:
        return input.numel()
    except AttributeError as error:
        return answer_failed(error, "numel", numel, (input,))


def get_device(input: Tensor) -> int:
    """Return the index of the GPU; -1 for the CPU.

    >>> torch.get_device(torch.zeros(2))
    -1
    """
    return input.get_device()


def detach(input: Tensor) -> Tensor:
    """Return a tensor that shares the memory but is detached from the graph.

    >>> torch.detach(torch.tensor([1.], requires_grad=True) * 2)
    tensor([2.])
    """
    try:
        return input.detach()
    except AttributeError as error:
        return answer_failed(error, "detach", detach, (input,))


@writes_by_operators
def detach_(input: Tensor) -> Tensor:
    """Detach the tensor from the graph, in place.

    >>> y = (torch.ones(2, requires_grad=True) * 2).detach_()
    >>> y.requires_grad, y.is_leaf
    (False, True)
    """
    return input.detach_()


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Return the axes ordered from largest to smallest stride.

    With `ambiguity_check` True, raises RuntimeError if axes of length 1 or equal strides allow
    several orders; a list of memory formats permits that if exactly one of them fits.

    >>> torch.zeros(2, 3).t().dim_order()
    (1, 0)
    """
    if self.layout is not strided:
        raise AttributeError(
            f"Can't get dim order on sparse type: {self.type()} Use Tensor.to_dense() to convert "
            "to a dense tensor first."
        )
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not (isinstance(ambiguity_check, (bool, list))
            and all(isinstance(x, memory_format) for x in formats)):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = self.stride()
    is_ambiguous = 1 in self.shape or any(a == b for a, b in pairwise(strides))
    if ambiguity_check is not False and is_ambiguous \
            and sum(self.is_contiguous(memory_format=x) for x in formats) != 1:
        raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one "
                           "of the given memory formats.")
    return tuple(sorted(range(self.ndim), key=lambda axis: -strides[axis]))


def dense_dim(self: Tensor) -> int:
    """Return the number of dense axes: all of them.

    >>> torch.zeros(2, 3).dense_dim()
    2
    """
    return self.dim()


def sparse_dim(self: Tensor) -> int:
    """Return the number of sparse axes: 0.

    >>> torch.zeros(2, 3).sparse_dim()
    0
    """
    return 0


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    """Return the tensor, which is already dense, cast to a dtype if one is given.

    >>> torch.zeros(2).to_dense()
    tensor([0., 0.])
    """
    return self if dtype is None else self.to(dtype)


def _reverse_axes(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)


def _attach() -> None:
    methods: Any = Tensor
    methods.__reversed__, methods.__nonzero__ = _reverse_axes, Tensor.__bool__
    methods.__long__, methods.const_data_ptr = Tensor.__int__, Tensor.data_ptr
    for name in ("ipu", "maia", "mtia", "vulkan", "xla"):
        setattr(methods, f"is_{name}", property(_return_false))
    methods.name = property(_return_none)
    methods._cdata = property(id)  # PyTorch's: the address of what stands behind the object


def _return_false(self: Tensor) -> bool:
    return False


def _return_none(self: Tensor) -> None:
    return None


def _publish() -> None:
    spaces = ("torch", "Tensor")
    functions: list[Any] = [is_complex, is_floating_point, numel, detach]
    for function in functions:
        publish(function, (function.__name__,), ("torch",))
    functions = [is_signed, is_conj, is_neg, is_inference, get_device, detach_]
    for function in functions:
        publish(wrap_with_explanation(function.__name__, function), (function.__name__,),
                ("torch",))
    functions = [is_nonzero, is_same_size, is_distributed]
    for function in functions:
        publish(wrap_with_explanation(function.__name__, function), (function.__name__,), spaces)
    functions = [dim_order, dense_dim, sparse_dim, to_dense]
    for function in functions:
        publish(function, (function.__name__,), ("Tensor",))


_publish()
_attach()
