"""torch._dynamo.utils: what libraries ask of PyTorch's compiler before they use it."""

from typing import Any

from ..ops.core.operator import PUBLIC
from ..tensor.devices import device
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree

__all__ = ["is_compile_supported", "same"]


def is_compile_supported(device_type: Any) -> bool:
    """Whether `torch.compile` makes programs for a type of device: for the CPU.

    >>> from flambeau._dynamo.utils import is_compile_supported
    >>> is_compile_supported("cpu"), is_compile_supported("cuda")
    (True, False)
    """
    return device(device_type).type == "cpu"


def same(ref: Any, res: Any, fp64_ref: Any = None, tol: float = 1e-4, equal_nan: bool = False,
         **options: Any) -> bool:
    """Whether two results nest alike and their tensors are close.

    >>> from flambeau._dynamo.utils import same
    >>> same((torch.ones(2), 1), (torch.ones(2), 1)), same(torch.ones(2), torch.zeros(2))
    (True, False)
    """
    leaves, spec = pytree.tree_flatten(ref)
    others, other_spec = pytree.tree_flatten(res)
    return spec == other_spec and all(
        isinstance(b, Tensor) and a.shape == b.shape and a.dtype == b.dtype
        and PUBLIC["torch"]["allclose"](a, b, rtol=tol, atol=tol, equal_nan=equal_nan)
        if isinstance(a, Tensor) else a == b for a, b in zip(leaves, others, strict=True)
    )
