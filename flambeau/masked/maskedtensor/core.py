"""MaskedTensor: a tensor with a mask of valid elements.

A wrapper class that implements operators in `__torch_dispatch__`: pointwise operators compute on
the data and keep the mask, data movement applies to both, reductions use `torch.masked`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops
from ...autograd.function import Function
from ...native.foundation.user_frames import warn
from ...ops.interception.subclass import DisableTorchFunctionSubclass
from ...tensor import dtypes as types
from ...tensor.layout import sparse_coo, sparse_csr, strided
from ...tensor.tensor import Tensor
from .. import reductions
from .binary import BINARY_NAMES
from .layouts import (
    check_places, convert, prepare, same_places, tensors_match, values_of, with_values,
)
from .reductions import REDUCE_NAMES
from .unary import UNARY_NAMES

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_POINTWISE = frozenset((*UNARY_NAMES, "relu", *BINARY_NAMES))

MOVEMENTS = frozenset("""
    select transpose split t slice slice_backward select_backward index expand view _unsafe_view
    _reshape_alias cat unsqueeze unfold im2col col2im stack permute squeeze split_with_sizes
""".split())


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether the object is a MaskedTensor.

    >>> torch.masked.is_masked_tensor(torch.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


class MaskedTensor(Tensor):
    """A tensor whose elements are missing where the mask is False.

    The data and the bool mask have the same shape. Created by `masked_tensor` (a leaf) and
    `as_masked_tensor` (which keeps the data's history).

    >>> x = torch.masked.masked_tensor(torch.tensor([1., 2.]), torch.tensor([False, True]))
    >>> (x + 1).to_tensor(0.)
    tensor([0., 3.])
    """

    _masked_data: Tensor
    _masked_mask: Tensor

    @staticmethod
    def __new__(cls: type, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        """Create the wrapper, with the data's shape and dtype."""
        for name, x in (("data", data), ("mask", mask)):
            if is_masked_tensor(x) or not isinstance(x, Tensor):
                raise TypeError(f"{name} must be a Tensor")
        warn("The PyTorch API of MaskedTensors is in prototype stage and will change in the near "
             "future. Please open a Github issue for features requests and see our documentation "
             "on the torch.masked module for further information about the project.")
        if data.requires_grad:
            warn("It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                 "To avoid this, you can use data.detach().clone()")
        if requires_grad and not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require "
                               "gradients")
        make_wrapper: Any = Tensor._make_wrapper_subclass
        return make_wrapper(cls, data.size(), dtype=data.dtype, device=data.device,
                            requires_grad=requires_grad)

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        data, mask = prepare(data, mask)
        _validate(data, mask)
        with DisableTorchFunctionSubclass():
            self._masked_data, self._masked_mask = data.detach().clone(), mask.clone()

    @property
    def layout(self) -> Any:
        """The layout of data and mask."""
        return self._masked_data.layout

    @property
    def is_sparse(self) -> bool:
        """Whether data and mask are sparse COO tensors."""
        return self._masked_data.is_sparse

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        """Whether the data is contiguous; ValueError for sparse data."""
        if self.layout is not strided:
            raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
        return self._masked_data.is_contiguous(*args, **kwargs)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Differentiate reductions and `where` here; dispatch everything else."""
        name, keywords = getattr(func, "__name__", ""), kwargs or {}
        if name in REDUCE_NAMES and is_masked_tensor(args[0]):
            return _reduce(name, *args, **keywords)
        if name == "where" and len(args) == 3:
            return _Where.apply(*args)
        if name in _CONVERSIONS and is_masked_tensor(args[0]):
            return _convert(args[0], _CONVERSIONS[name])
        if name in ("pow_", "__ipow__") and is_masked_tensor(args[0]):
            args[0]._masked_data.pow_(*map(_data_of, args[1:]))
            return args[0]
        if name == "contiguous" and is_masked_tensor(args[0]):
            if args[0].is_contiguous():
                return args[0]
            return as_masked_tensor(args[0].get_data().contiguous(), args[0]._masked_mask)
        return super().__torch_function__(func, types, args, keywords)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Apply an operator to data and mask, by its name."""
        packet, keywords = func.overloadpacket, kwargs or {}
        name = packet.__name__
        in_place = name.endswith("_") and name.rstrip("_") in _POINTWISE
        base_name = name.rstrip("_") if in_place else name
        if base_name in _POINTWISE:
            return _pointwise(packet, base_name in BINARY_NAMES, in_place, args, keywords)
        if name in MOVEMENTS:
            return _move(packet, args, keywords)
        if name in REDUCE_NAMES:
            return _reduce(name, *args, **keywords)
        if name.lstrip("_") in HANDLERS:
            return HANDLERS[name.lstrip("_")](packet, *args, **keywords)
        warn(f"{name} is not implemented in __torch_dispatch__ for MaskedTensor.\n"
             "If you would like this operator to be supported, please file an issue for a feature "
             "request at https://github.com/pytorch/maskedtensor/issues with a minimal "
             "reproducible code snippet.\nIn the case that the semantics for the operator are not "
             "trivial, it would be appreciated to also include a proposal for the semantics.")
        return NotImplemented

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """The elements, with `--` for missing ones."""
        data, mask = convert(self._masked_data, self._masked_mask, strided)
        if self.dim() == 0:
            shown = _element(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        lines = "\n".join("  " + line for line in _rows(data, mask).split("\n"))
        return f"MaskedTensor(\n{lines}\n)"

    def get_data(self) -> Tensor:
        """The data, including missing elements."""
        data: Tensor = GetData.apply(self)
        return data

    def get_mask(self) -> Tensor:
        """The mask."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """The data with `value` in place of missing elements."""
        return self.get_data().masked_fill(~self._masked_mask, value)


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """Create a MaskedTensor that is a leaf.

    >>> x = torch.masked.masked_tensor(torch.tensor([1., 2.]), torch.tensor([True, False]))
    >>> x
    MaskedTensor(
      [  1.0000,       --]
    )
    >>> x.sum()
    MaskedTensor(  1.0000, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """Create a MaskedTensor whose gradients reach `data`.

    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> torch.masked.as_masked_tensor(x, torch.tensor([True, False])).requires_grad
    True
    """
    result: MaskedTensor = Constructor.apply(data, mask)
    return result


def _validate(data: Tensor, mask: Tensor) -> None:
    if type(data) is not type(mask):
        raise TypeError(f"data and mask must have the same type. Got {type(data)} and {type(mask)}")
    if mask.dtype is not types.bool_:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in (types.float16, types.float32, types.float64, types.bool_, types.int8,
                          types.int16, types.int32, types.int64):
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")
    check_places(data, mask)


def _element(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _rows(data: Tensor, mask: Tensor) -> str:
    """Format the elements of a row, or the rows of a tensor, indented."""
    if data.dim() > 1:
        rows = [_rows(d, m) for d, m in zip(data, mask, strict=True)]
        rows = ["\n".join("  " + line for line in row.split("\n")) for row in rows]
        return "[\n" + ",\n".join(rows) + "\n]"
    texts = [_element(d.item()) for d in data]
    visible = mask.tolist()
    width = max([len(text) if m else 8 for text, m in zip(texts, visible, strict=True)], default=0)
    return "[" + ", ".join(text if m else "--".rjust(width)
                           for text, m in zip(texts, visible, strict=True)) + "]"


# -------------------------------------------------------------------------------- derivatives


class Constructor(Function):
    """Wrap data that has autograd history. Gradients stay masked, even at the data."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> MaskedTensor:
        """Wrap the data and the mask."""
        return MaskedTensor(data.detach(), mask)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Return the cotangent."""
        return gs[0], None


class _Reduced(Constructor):
    """Wrap the result of a reduction of plain data."""

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Return the cotangent's data."""
        return _data_of(gs[0]), None


class GetData(Function):
    """The data of a MaskedTensor, differentiably."""

    @staticmethod
    def forward(ctx: Any, masked: MaskedTensor) -> Tensor:
        """Return the data without the mask."""
        ctx.mask = masked._masked_mask
        return masked._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Return the cotangent with the mask."""
        return gs[0] if is_masked_tensor(gs[0]) else MaskedTensor(gs[0].detach(), ctx.mask)


class _Conversion(Function):
    """Convert a MaskedTensor to another layout, and its cotangent back."""

    @staticmethod
    def forward(ctx: Any, masked: MaskedTensor, layout: Any) -> MaskedTensor:
        """Return data and mask in the layout."""
        ctx.layout = masked.layout
        return MaskedTensor(*convert(masked._masked_data, masked._masked_mask, layout))

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Return the cotangent in the argument's layout."""
        return _convert(gs[0], ctx.layout), None


_CONVERSIONS = {"to_dense": strided, "to_sparse": sparse_coo, "to_sparse_coo": sparse_coo,
                "to_sparse_csr": sparse_csr}


def _convert(masked: MaskedTensor, layout: Any) -> MaskedTensor:
    if masked.layout is layout:
        return masked
    result: MaskedTensor = _Conversion.apply(masked, layout)
    return result


class _Where(Function):
    """`where`, whose cotangents mask the elements that were not selected."""

    @staticmethod
    def forward(ctx: Any, condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
        """Select elements and masks by the condition."""
        ctx.condition = condition
        return _where(ops.where, condition, input, other)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Return the cotangent of both sides: each is masked where the other is selected."""
        data, mask = _data_of(gs[0]), _mask_of(gs[0])
        if mask is None:
            mask = ops.ones_like(data, dtype=types.bool_)
        return (None, MaskedTensor(data, mask & ctx.condition),
                MaskedTensor(data, mask & ~ctx.condition))


# ---------------------------------------------------------------------- what operators become


def _data_of(x: Any) -> Any:
    return x._masked_data if is_masked_tensor(x) else x


def _mask_of(x: Any) -> Tensor | None:
    return x._masked_mask if is_masked_tensor(x) else None


def _map_each(function: Callable[[Any], Any], value: Any) -> Any:
    if value.__class__ in (tuple, list):
        return type(value)(function(v) for v in value)
    return function(value)


def _pointwise(packet: Any, binary: bool, in_place: bool, args: tuple, kwargs: dict) -> Any:
    """Apply the operator to the data and keep the mask. Two masks must be equal."""
    operands = args[:2] if binary else args[:1]
    if any(isinstance(x, Tensor) for x in (*args[len(operands):], *kwargs.values())):
        raise TypeError(f"MaskedTensor {'binary' if binary else 'unary'} ops do not support "
                        "additional Tensor arguments")
    masks = [m for m in map(_mask_of, operands) if m is not None]
    if len(masks) == 2 and not tensors_match(masks[0], masks[1]):
        raise ValueError("Input masks must match. If you need support for this, please open an "
                         "issue on Github.")
    data = [_data_of(x) for x in args]
    first = data[0]
    if not isinstance(first, Tensor) or first.layout is strided:
        result = packet(*data, **kwargs)
        return args[0] if in_place else MaskedTensor(result, masks[0].expand_as(result))
    if binary and isinstance(data[1], Tensor) and not same_places(first, data[1]):
        raise ValueError(f"{first.layout} indices must match. If you need support for this, please "
                         "open an issue on Github.".replace("torch.", "", 1))
    result = with_values(first, packet(*map(values_of, data), **kwargs))
    if not in_place:
        return MaskedTensor(result, masks[0])
    args[0]._masked_data = result
    return args[0]


def _move(packet: Any, args: tuple, kwargs: dict) -> Any:
    """Apply the operator to data and mask."""
    data = packet(*[_map_each(_data_of, a) for a in args], **kwargs)
    masks = [_map_each(lambda x: _mask_of(x) if is_masked_tensor(x) else x, a) for a in args]
    mask = packet(*masks, **kwargs)
    if isinstance(data, (tuple, list)):
        return type(data)(MaskedTensor(d, m) for d, m in zip(data, mask, strict=True))
    return MaskedTensor(data, mask)


def _reduce(
    name: str, input: MaskedTensor, dim: Any = None, keepdim: bool = False,
    dtype: Any = None, **kwargs: Any,
) -> MaskedTensor:
    """Reduce with `torch.masked`; a result is missing if all its elements are."""
    if input.layout is not strided:  # elements absent from a sparse mask are masked out
        if dim is not None:
            raise NotImplementedError(f"MaskedTensor.{name} of layout {input.layout} along axes")
        input = _convert(input, strided)
    data, mask = input.get_data(), input._masked_mask
    is_valid = mask
    axes = range(mask.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    for axis in sorted({a % max(mask.dim(), 1) for a in axes}, reverse=True):
        is_valid = ops.any(is_valid, axis, keepdim)
    if name == "all":
        filled = data.masked_fill(~mask, True)
        return MaskedTensor(filled.all() if dim is None else filled.all(dim, keepdim), is_valid)
    options = {**kwargs, "keepdim": keepdim, "mask": mask}
    if dtype is not None:
        options["dtype"] = dtype
    reduction = getattr(reductions, name)
    result = reduction(data, 2, dim, **options) if name == "norm" else \
        reduction(data, dim, **options)
    reduced: MaskedTensor = _Reduced.apply(result, is_valid)
    return reduced


def _where(packet: Any, condition: Tensor, input: Any, other: Any) -> MaskedTensor:
    """Select elements and masks by the condition; a plain tensor's elements are all valid."""
    masks = [ops.ones_like(x, dtype=types.bool_) if _mask_of(x) is None else _mask_of(x)
             for x in (input, other)]
    return MaskedTensor(ops.where(condition, _data_of(input), _data_of(other)),
                        ops.where(condition, *masks))


def _on_data(packet: Any, input: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    """Apply the operator to the data only."""
    return MaskedTensor(packet(_data_of(input), *args, **kwargs), input._masked_mask)


def _softmax(packet: Any, input: MaskedTensor, dim: int, *rest: Any) -> MaskedTensor:
    """Softmax of the valid elements."""
    mask = input._masked_mask
    return MaskedTensor(reductions.softmax(_data_of(input), dim, mask=mask), mask)


def _softmax_gradient(
    packet: Any, grad: MaskedTensor, output: MaskedTensor, *rest: Any
) -> MaskedTensor:
    """The cotangent of a softmax, over the valid elements."""
    if not tensors_match(grad._masked_mask, output._masked_mask):
        raise ValueError(f"__torch_dispatch__, {packet}: expected the masks of grad and output to "
                         "match")
    mask = grad._masked_mask
    g, y = (_data_of(x).masked_fill(~mask, 0) for x in (grad, output))
    return MaskedTensor(packet(g, y, *rest), mask)


def _item(packet: Any, input: MaskedTensor) -> Any:
    """The only element; ValueError if it is missing."""
    if not input._masked_mask.item():
        raise ValueError(f"__torch_dispatch__, {packet}: expected a mask tensor")
    return _data_of(input).item()


def _copy_into(packet: Any, target: Tensor, source: Tensor) -> Tensor:
    """Copy data; of two MaskedTensors the masks have to match."""
    masks = [x._masked_mask for x in (target, source) if isinstance(x, MaskedTensor)]
    if len(masks) == 2 and not tensors_match(masks[0], masks[1]):
        raise ValueError("args[0] mask and args[1] mask must match but do not")
    packet(*[x._masked_data if isinstance(x, MaskedTensor) else x for x in (target, source)])
    return target


HANDLERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("clone", "detach", "ones_like", "zeros_like", "to_copy"), _on_data),
    "where": _where, "softmax": _softmax, "softmax_backward_data": _softmax_gradient,
    "local_scalar_dense": _item, "copy_": _copy_into,
}


def _tensors_match(
    a: Tensor, b: Tensor, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08
) -> bool:
    """Return whether two plain tensors are equal; ValueError for MaskedTensors."""
    if is_masked_tensor(a) or is_masked_tensor(b):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    return tensors_match(a, b, exact, rtol, atol)


def _masks_match(a: Any, b: Any) -> bool:
    """Return whether two MaskedTensors have equal masks; True unless both are MaskedTensors."""
    if is_masked_tensor(a) and is_masked_tensor(b):
        return tensors_match(a._masked_mask, b._masked_mask)
    return True
