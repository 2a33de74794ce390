"""Functions that PyTorch took out after 1.9, which raise and name what to call instead; tensor
methods that it keeps for old programs, and those of devices that are not there."""

from __future__ import annotations

from typing import Any, NoReturn

from ...native.foundation.user_frames import warn
from ...tensor.dtypes import dtype
from ...tensor.tensor import Tensor, attach
from ..core.operator import publish

_INSTEAD = {
    "lstsq": "torch.linalg.lstsq(A, B), whose arguments stand the other way round",
    "eig": "torch.linalg.eig(A), whose results are complex",
    "symeig": "torch.linalg.eigh(A, UPLO='U' if upper else 'L')",
    "solve": "torch.linalg.solve(A, B), whose arguments stand the other way round",
    "matrix_rank": "torch.linalg.matrix_rank(A, hermitian=symmetric)",
}


def _refuse(name: str, instead: str) -> None:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("This function was deprecated since version 1.9 and is now removed. "
                           f"torch.{name} is replaced by {instead}.")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Removed: RuntimeError. Call {instead}.

    >>> torch.{name}(torch.eye(2))
    Traceback (most recent call last):
        ...
    RuntimeError: This function was deprecated since version 1.9 and is now removed. ...
    """
    spaces = ("torch",) if name == "matrix_rank" else ("torch", "Tensor")
    publish(function, (name,), spaces)


for _name, _words in _INSTEAD.items():
    _refuse(_name, _words)


# ------------------------------------------------------------------------- methods


def _resize(self: Tensor, *sizes: Any) -> Tensor:
    """Deprecated in favor of `reshape`: a view in another shape of as many elements."""
    warn("non-inplace resize is deprecated", UserWarning)
    shape = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return _resize_legacy(self, tuple(shape))


def _resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Deprecated in favor of `reshape_as`: a view in the shape of a tensor of as many elements."""
    warn("non-inplace resize_as is deprecated", UserWarning)
    return _resize_legacy(self, tuple(tensor.shape))


def _resize_legacy(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    count = 1
    for n in shape:
        count *= n
    if count != x.numel():
        expected, there = ("x".join(map(str, s)) for s in (shape, x.shape))
        raise RuntimeError(
            f"requested resize to {expected} ({count} elements in total), but the given tensor has "
            f"a size of {there} ({x.numel()} elements). autograd's resize can only change the "
            "shape of a given tensor, while preserving the number of elements. "
        )
    result: Tensor = x.contiguous().view(shape)
    return result


def _load_from_module(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """The tensor that Module.load_state_dict swaps in for this one.

    >>> torch.zeros(2).module_load(torch.ones(2))
    tensor([1., 1.])
    """
    result: Tensor = other.detach() if assign else self.copy_(other).detach()
    return result


def _record_stream(self: Tensor, s: Any) -> NoReturn:
    """RuntimeError: there are no streams on the CPU."""
    raise RuntimeError("unknown parameter type")


def _reinforce(self: Tensor, reward: Any) -> NoReturn:
    """RuntimeError: removed long ago."""
    raise RuntimeError("reinforce() was removed.\nUse torch.distributions instead.\n"
                       "See https://pytorch.org/docs/main/distributions.html")


def _delete_item(self: Tensor, index: Any) -> NoReturn:
    raise TypeError("Tensor does not support deleting items")


def _xpu(self: Tensor, device: Any = None, non_blocking: bool = False) -> NoReturn:
    """AssertionError: flambeau runs on the CPU."""
    raise AssertionError("Torch not compiled with XPU enabled")


def _mtia(self: Tensor, device: Any = None, non_blocking: bool = False) -> NoReturn:
    """AssertionError: flambeau runs on the CPU."""
    raise AssertionError("Torch not compiled with MTIA enabled.")


def _ipu(self: Tensor, device: Any = None, non_blocking: bool = False) -> NoReturn:
    """RuntimeError: flambeau runs on the CPU."""
    raise RuntimeError("PyTorch is not linked with support for ipu devices")


def _grad_dtype(self: Tensor) -> dtype | None:
    """The dtype of its gradient: its own, unless another was set; None lets any in.

    Set to another dtype it is remembered only.

    >>> torch.zeros(2).grad_dtype
    torch.float32
    """
    chosen: dtype | None = self.__dict__.get("_flambeau_grad_dtype", self.dtype)
    return chosen


def _set_grad_dtype(self: Tensor, value: dtype | None) -> None:
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    self.__dict__["_flambeau_grad_dtype"] = value


def _volatile(self: Tensor) -> bool:
    """False: no_grad() took its place.

    >>> torch.zeros(2).volatile
    False
    """
    return False


def _set_volatile(self: Tensor, value: Any) -> None:
    warn(
        "volatile was removed (Variable.volatile is always False), and now has no effect. Use "
        "'with torch.no_grad():' instead.", UserWarning,
    )


attach(
    resize=_resize, resize_as=_resize_as, module_load=_load_from_module,
    record_stream=_record_stream,
    reinforce=_reinforce, __delitem__=_delete_item, xpu=_xpu, mtia=_mtia, ipu=_ipu,
    grad_dtype=property(_grad_dtype, _set_grad_dtype),
    volatile=property(_volatile, _set_volatile),
)
