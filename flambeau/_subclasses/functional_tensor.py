"""torch._subclasses.functional_tensor: the wrapper by which PyTorch's compiler turns writes into
values. flambeau's works on its graph instead: no tensor is one of them."""

from __future__ import annotations

from typing import Any, NoReturn

from ..tensor.tensor import Tensor

__all__ = ["FunctionalTensor", "mb_unwrap_functional_tensor"]


class FunctionalTensor(Tensor):
    """A class without instances, for programs that ask whether a tensor is one."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("torch._subclasses.functional_tensor.FunctionalTensor is not "
                                  "implemented in flambeau")


def mb_unwrap_functional_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor, which is no wrapper."""
    return tensor
