"""torch.sparse: products, sums and softmax with sparse gradients; checks of invariants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .native.foundation.user_frames import warn
from .ops.sparse import entry
from .ops.sparse.diagonals import spdiags
from .ops.sparse.gradcheck import reduce_to_values
from .ops.sparse.invariants import CHECKS
from .ops.sparse.products import sampled_addmm
from .ops.sparse.products import sparse_addmm as addmm
from .ops.sparse.reductions import log_softmax, softmax
from .ops.sparse.reductions import sparse_sum as sum
from .ops.sparse.row_reductions import mm
from .ops.sparse.semi_structured import (
    SparseSemiStructuredTensor, SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS, to_sparse_semi_structured,
)
from .ops.sparse.solves import spsolve
from .tensor import dtypes

entry.load()

__all__ = [
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS", "addmm", "as_sparse_gradcheck",
    "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags",
    "spsolve", "sum", "to_sparse_semi_structured",
]


def _create_legacy_constructor(name: str, dtype: Any) -> Callable:
    def construct(*args: Any, device: Any = None) -> Any:
        warn(
            f"torch.sparse.{name}(indices, values, shape, *, device=) is deprecated.  Please use "
            f"torch.sparse_coo_tensor(indices, values, shape, dtype=, device=).",
        )
        if not args:
            return entry.sparse_coo_tensor((0,), dtype=dtype)
        if all(isinstance(n, int) for n in args):
            args = (args,)
        return entry.sparse_coo_tensor(*args, dtype=dtype)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"Deprecated in favor of `sparse_coo_tensor`: a sparse tensor of {dtype}."
    return construct


FloatTensor = _create_legacy_constructor("FloatTensor", dtypes.float32)
DoubleTensor = _create_legacy_constructor("DoubleTensor", dtypes.float64)
HalfTensor = _create_legacy_constructor("HalfTensor", dtypes.float16)
BFloat16Tensor = _create_legacy_constructor("BFloat16Tensor", dtypes.bfloat16)
LongTensor = _create_legacy_constructor("LongTensor", dtypes.int64)
IntTensor = _create_legacy_constructor("IntTensor", dtypes.int32)
ShortTensor = _create_legacy_constructor("ShortTensor", dtypes.int16)
CharTensor = _create_legacy_constructor("CharTensor", dtypes.int8)
ByteTensor = _create_legacy_constructor("ByteTensor", dtypes.uint8)


class check_sparse_tensor_invariants:
    """Make constructors of sparse tensors check indices, values and sizes.

    Use as a context manager or decorator, or call `enable` and `disable`.

    https://pytorch.org/docs/stable/generated/torch.sparse.check_sparse_tensor_invariants.html

    >>> with torch.sparse.check_sparse_tensor_invariants():
    ...     torch.sparse_coo_tensor([[0, 7]], [1., 2.], (3,))
    Traceback (most recent call last):
    RuntimeError: size is inconsistent with indices: for dim 0, size is 3 but found index 7
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether constructors check."""
        return CHECKS.on

    @staticmethod
    def enable() -> None:
        """Turn the checks on."""
        CHECKS.on = True

    @staticmethod
    def disable() -> None:
        """Turn the checks off."""
        CHECKS.on = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self.saved_state = CHECKS.on
        CHECKS.on = self.state

    def __exit__(self, *exception: object) -> None:
        assert self.saved_state is not None
        CHECKS.on = self.saved_state
        self.saved_state = None

    def __call__(self, function: Callable) -> Callable:
        import functools

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable) -> Callable:
    """Return a gradcheck that also takes sparse tensors and checks the gradients of their values.

    https://pytorch.org/docs/stable/generated/torch.sparse.as_sparse_gradcheck.html

    >>> check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
    >>> check(lambda x: x * 3, x)
    True
    """

    def sparse_gradcheck(func: Callable, inputs: Any, **options: Any) -> Any:
        """Compare the gradients of `func` with finite differences; at stored positions only if
        `masked`."""
        supplied = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
        func, leaves = reduce_to_values(func, supplied, bool(options.pop("masked", False)))
        return gradcheck(func, leaves, **options)

    return sparse_gradcheck
