"""torch._foreach_*: one operator on each tensor of a list, as third-party optimizers call them.

Each applies the operator to the tensors in sequence, so recording, promotion and compilation work
as for the operator. Twins that end in '_' write to the tensors and return the list passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from ...tensor.tensor import Tensor
from ..core.operator import PUBLIC, publish
from ..core.registry import writes_by_operators

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
# By the further arguments per tensor: an operand, or two factors and a scale.
_BINARY = "add clamp_max clamp_min div maximum minimum mul pow sub".split()
_SCALED = "addcdiv addcmul".split()
_TAKING_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # the same, and with a twin


def _as_list(name: str, tensors: Any) -> Sequence[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}() received an invalid combination of arguments - got "
                        f"({type(tensors).__name__}), but expected a tuple of Tensors")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got "
                            f"{type(tensor).__name__}")
    return tensors


def _pair_operands(tensors: Sequence[Tensor], other: Any, are_tensors: bool = False) -> Any:
    """Return one operand per tensor: from a list, or the same number or 0-dim tensor for all.

    An empty list is one of numbers unless `are_tensors`.
    """
    if not isinstance(other, (list, tuple)):
        if isinstance(other, Tensor) and other.dim():
            raise RuntimeError(f"scalar tensor expected to be 0 dim but it has {other.dim()} "
                               f"dimensions and {other.numel()} elements.")
        return repeat(other, len(tensors))
    if len(other) == len(tensors):
        return other
    if not are_tensors and not (other and isinstance(other[0], Tensor)):
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    raise RuntimeError("Tensor lists must have the same number of tensors, got "
                       f"{len(tensors)} and {len(other)}")


def _list_scales(tensors: Sequence[Tensor], value: Any) -> Any:
    """Return each tensor's scale, from one number, a list of them, or a tensor of them."""
    if not isinstance(value, Tensor):
        return _pair_operands(tensors, value)
    if value.dim() != 1:
        raise RuntimeError("Expected packed scalar Tensor to be of dimension 1. Got "
                           f"{value.dim()} instead.")
    if not value.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if value.numel() != len(tensors):
        raise RuntimeError(f"Expected length of scalars to match input of length {len(tensors)} "
                           f"but got {value.numel()} instead.")
    return value.tolist()


def _describe(name: str, inplace: bool) -> str:
    twin = f"_foreach_{name}{'_' if inplace else ''}"
    return f"`{name}` {'in place on' if inplace else 'of'} each tensor of a list: torch.{twin}."


def _declare(name: str, apply: Callable[..., list]) -> None:
    """Publish torch._foreach_NAME and its twin; `apply(method, tensors, ...)` does the work."""

    method = _TAKING_NUMBERS.get(name, name)

    def fresh(self: Any, *args: Any, **kwargs: Any) -> Any:
        called = getattr(Tensor, method)
        return tuple(apply(called, _as_list(f"_foreach_{name}", self), *args, **kwargs))

    def twin(self: Any, *args: Any, **kwargs: Any) -> Any:
        apply(getattr(Tensor, method + "_"), _as_list(f"_foreach_{name}_", self), *args, **kwargs)
        return self

    for function, inplace in ((fresh, False), (twin, True)):
        public = f"_foreach_{name}{'_' if inplace else ''}"
        function.__name__ = function.__qualname__ = public
        function.__doc__ = _describe(name, inplace)
        publish(writes_by_operators(function) if inplace else function, (public,), ("torch",))


def _map_tensors(call: Callable, tensors: Sequence[Tensor]) -> list:
    return [call(tensor) for tensor in tensors]


def _with_other(call: Callable, tensors: Sequence[Tensor], other: Any, **options: Any) -> list:
    return [call(tensor, by, **options)
            for tensor, by in zip(tensors, _pair_operands(tensors, other), strict=True)]


def _with_product(
    call: Callable, tensors: Sequence[Tensor], tensor1: Any, tensor2: Any, value: Any = 1,
    *, scalars: Any = None,
) -> list:
    scales = _list_scales(tensors, value if scalars is None else scalars)
    operands = zip(tensors, _pair_operands(tensors, tensor1, True),
                   _pair_operands(tensors, tensor2, True), scales, strict=True)
    return [call(input, a, b, value=scale) for input, a, b, scale in operands]


def _map_towards(
    call: Callable, tensors: Sequence[Tensor], tensors1: Any, weight: Any = None,
    *, weights: Any = None,
) -> list:
    steps = _pair_operands(tensors, weight if weights is None else weights)
    ends = _pair_operands(tensors, tensors1)
    return [call(*operands) for operands in zip(tensors, ends, steps, strict=True)]


for _name in _UNARY:
    _declare(_name, _map_tensors)
for _name in _BINARY:
    _declare(_name, _with_other)
for _name in _SCALED:
    _declare(_name, _with_product)
_declare("lerp", _map_towards)

_raised = PUBLIC["torch"]["_foreach_pow"]


def _foreach_pow(self: Any, exponent: Any) -> tuple[Tensor, ...]:
    """`pow` of each tensor of a list, or of one number to each tensor's power."""
    if isinstance(self, (list, tuple)):
        return _raised(self, exponent)
    return tuple(PUBLIC["torch"]["pow"](self, item) for item in _as_list("_foreach_pow", exponent))


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The vector norm of each tensor of a list."""
    norm = PUBLIC["linalg"]["vector_norm"]
    return tuple(norm(item, ord, dtype=dtype) for item in _as_list("_foreach_norm", self))


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The sum of |x|**ord over each tensor of a list."""
    listed = _as_list("_foreach_powsum", self)
    return tuple(item.abs().pow(ord).sum(dtype=dtype) for item in listed)


def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    """The largest element of each tensor of a list."""
    listed = _as_list("_foreach_max", self)
    if any(item.numel() == 0 for item in listed):
        raise RuntimeError("_foreach_max cannot compute the maximum of an empty tensor; max over "
                           "zero elements is undefined.")
    return tuple(item.max() for item in listed)


def _foreach_mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    """The matrix product of each pair of a list."""
    return tuple(_with_other(PUBLIC["torch"]["mm"], _as_list("_foreach_mm", self), mat2))


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """A copy of each tensor of a list."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(item.clone(**options) for item in _as_list("_foreach_clone", self))


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Write each tensor of the second list to that of the first."""
    _with_other(Tensor.copy_, _as_list("_foreach_copy_", self), src)
    return self


def _foreach_zero_(self: Any) -> Any:
    """Fill each tensor of a list with zeros."""
    _map_tensors(Tensor.zero_, _as_list("_foreach_zero_", self))
    return self


for _function in (_foreach_pow, _foreach_norm, _foreach_powsum, _foreach_max, _foreach_mm,
                  _foreach_clone, _foreach_copy_, _foreach_zero_):
    publish(_function, (_function.__name__,), ("torch",))
