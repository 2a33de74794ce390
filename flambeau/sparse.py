"""torch.sparse: products, sums and softmax whose gradients stay sparse; checks of invariants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ops.sparse import entry
from .ops.sparse.construction import spdiags
from .ops.sparse.invariants import CHECKS
from .ops.sparse.products import sampled_addmm
from .ops.sparse.products import sparse_addmm as addmm
from .ops.sparse.products import sparse_mm as mm
from .ops.sparse.reductions import log_softmax, softmax
from .ops.sparse.reductions import sparse_sum as sum
from .tensor import Tensor
from .tensor.absent import lacking

entry.load()

__all__ = [
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm",
    "sampled_addmm", "softmax", "spdiags", "sum",
]  # fmt: skip

_NAMES = ("DoubleTensor", "FloatTensor", "LongTensor", "SparseSemiStructuredTensor", "spsolve",
          "to_sparse_semi_structured")  # fmt: skip


class check_sparse_tensor_invariants:
    """Has constructors of sparse tensors check indices, values and sizes, in a block or for good.

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
        """Constructors check from now on."""
        CHECKS.on = True

    @staticmethod
    def disable() -> None:
        """Constructors check no longer."""
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
        def checked(*args: Any, **named: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **named)

        return checked


def as_sparse_gradcheck(gradcheck: Callable) -> Callable:
    """A gradcheck that takes sparse tensors: it goes over their values.

    https://pytorch.org/docs/stable/generated/torch.sparse.as_sparse_gradcheck.html

    >>> check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
    >>> check(lambda x: x * 3, x)
    True
    """

    def sparse_gradcheck(func: Callable, inputs: Any, **options: Any) -> Any:
        """Compares the gradients of `func` with differences, where the inputs are stored."""
        masked = options.pop("masked", False)
        values, rebuild = [], []
        for x in inputs if isinstance(inputs, (list, tuple)) else (inputs,):
            is_leaf = isinstance(x, Tensor) and x.requires_grad and x.layout is not _strided
            values.append(_stored(x, masked) if is_leaf else x)
            rebuild.append(_rebuilder(x, masked) if is_leaf else _same)

        def of_values(*parts: Any) -> Any:
            made = func(*[f(p) for f, p in zip(rebuild, parts, strict=True)])
            results = made if isinstance(made, (list, tuple)) else (made,)
            dense = tuple(y.to_dense(masked_grad=masked) if isinstance(y, Tensor) else y
                          for y in results)  # fmt: skip
            return dense if isinstance(made, (list, tuple)) else dense[0]

        return gradcheck(of_values, tuple(values), **options)

    return sparse_gradcheck


_strided = Tensor.layout.fget(None)  # type: ignore[attr-defined]


def _same(x: Any) -> Any:
    return x


def _stored(x: Any, masked: bool) -> Tensor:
    with_zeros = x.detach() if masked else x.detach().to_dense()
    if not masked:
        return with_zeros.requires_grad_()
    found = with_zeros.coalesce().values() if x.is_sparse else with_zeros.values()
    return found.clone().requires_grad_()


def _rebuilder(x: Any, masked: bool) -> Callable:
    from .ops.sparse.conversion import convert, with_values

    pattern = x.detach().coalesce() if x.is_sparse else x.detach()
    if masked:
        return lambda values: with_values(pattern, values)
    array = pattern._array
    sparse = array.sparse_dim if x.is_sparse else None
    block = None if x.is_sparse or not array.blocked else array.block
    return lambda dense: convert(dense, x.layout, sparse_dim=sparse, block=block)


__getattr__ = lacking(__name__, _NAMES)
