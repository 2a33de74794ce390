"""Construct nested tensors, and pad them."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autograd import no_grad
from ..tensor.layout import jagged, layout as Layout, strided
from ..tensor.tensor import Tensor
from .jagged_tensor import jagged_from_list, jagged_from_tensor_and_lengths, view_jagged
from .strided_tensor import StridedNestedTensor, strided_from_rows


def _build_unsupported_error(subject: str, layout: Any) -> RuntimeError:
    return RuntimeError(f"Specified layout is unsupported for nested {subject}: {layout}")


def nested_tensor(
    tensor_list: Any, *, dtype: Any = None, layout: Layout | None = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:
    """A nested tensor without history: a copy of the tensors, or lists of numbers.

    >>> nt = torch.nested.nested_tensor([[1., 2.], [3.]], layout=torch.jagged)
    >>> nt.offsets()
    tensor([0, 2, 3])
    """
    if layout not in (None, strided, jagged):
        raise _build_unsupported_error("tensors", layout)
    if layout is not jagged and not isinstance(tensor_list, (list, tuple)):
        raise TypeError("nested_tensor(): argument 'tensor_list' must be list of Tensors, not "
                        f"{type(tensor_list).__name__}")
    rows = [t if isinstance(t, Tensor) else ops.as_tensor(t) for t in tensor_list]
    with no_grad():
        result: Any = jagged_from_list(rows, None, dtype=dtype, device=device)[0] \
            if layout is jagged else strided_from_rows(rows, dtype)
        result = result.detach()
    result.requires_grad_(requires_grad)
    return result.pin_memory() if pin_memory else result


def as_nested_tensor(
    ts: Any, dtype: Any = None, device: Any = None, layout: Layout | None = None
) -> Tensor:
    """A nested tensor of a list of tensors, or of a tensor's rows; gradients reach them.

    >>> a, b = torch.ones(2, requires_grad=True), torch.ones(1)
    >>> torch.nested.as_nested_tensor([a, b], layout=torch.jagged).sum().backward()
    >>> a.grad
    tensor([1., 1.])
    """
    single = isinstance(ts, Tensor)
    if not single and not (isinstance(ts, (list, tuple))
                           and all(isinstance(t, Tensor) for t in ts)):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / "
                        "tuple of tensors ")
    if single and ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    if single and ts.is_nested:
        if layout is not ts.layout:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is "
                               "not supported")
        result: Tensor = ts.to(device=ts.device if device is None else device,
                               dtype=ts.dtype if dtype is None else dtype)
        return result
    if layout is None or layout is strided:
        return _split_strided_rows(ts, dtype) if single else strided_from_rows(list(ts), dtype)
    if layout is not jagged:
        raise _build_unsupported_error("tensors", layout)
    if single:
        return _split_rows(ts, dtype, device)
    return jagged_from_list(list(ts), None, dtype=dtype, device=device)[0]


def _split_rows(t: Tensor, dtype: Any, device: Any) -> Tensor:
    """The rows of a dense tensor, which are as long as each other."""
    values = t.contiguous().flatten(0, 1).to(
        device=t.device if device is None else device, dtype=t.dtype if dtype is None else dtype)
    batch, length = t.shape[:2]
    offsets = ops.arange(batch + 1) * length
    return view_jagged(values, offsets, min_seqlen=length, max_seqlen=length)


def _split_strided_rows(t: Tensor, dtype: Any) -> Tensor:
    """The rows of a dense tensor, sharing its memory if it is contiguous."""
    buffer = t.reshape(-1)
    result: Tensor = StridedNestedTensor(
        buffer if dtype is None else buffer.to(dtype), [tuple(t.shape[1:])] * t.shape[0])
    return result


def nested_tensor_from_jagged(
    values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None,
    jagged_dim: int | None = None, min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> Tensor:
    """A view of packed values as rows that begin at the offsets; `lengths` leave holes.

    >>> nt = torch.nested.nested_tensor_from_jagged(torch.arange(3.), torch.tensor([0, 2, 3]))
    >>> nt.unbind()
    (tensor([0., 1.]), tensor([2.]))
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is "
                               "required.")
        offsets, lengths = ops.cat([lengths.new_zeros(1), lengths.cumsum(0)]), None
    if jagged_dim is not None and jagged_dim < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {jagged_dim}.")
    return view_jagged(values, offsets, lengths, ragged_idx=jagged_dim or 1,
                       min_seqlen=min_seqlen, max_seqlen=max_seqlen)


def narrow(
    tensor: Tensor, dim: int, start: Any, length: Any, layout: Layout = strided
) -> Tensor:
    """A slice of each row of a dense tensor, with its own start and length; a view.

    >>> x = torch.arange(6).reshape(2, 3)
    >>> torch.nested.narrow(x, 1, torch.tensor([0, 1]), torch.tensor([1, 2]), torch.jagged).unbind()
    (tensor([0]), tensor([4, 5]))
    """
    for name, value in (("start", start), ("length", length)):
        if not isinstance(value, (int, Tensor)):
            raise RuntimeError(f"{name} must be an integer or a tensor")
    if layout is strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        rows = as_nested_tensor(tensor.unbind(), layout=strided)
        return rows.narrow(dim, start, length)
    if layout is not jagged:
        raise _build_unsupported_error("narrow", layout)
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    starts, lengths = (x if isinstance(x, Tensor) else ops.tensor([x]) for x in (start, length))
    return jagged_from_tensor_and_lengths(tensor, starts, lengths)[0]


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask is True, row by row.

    >>> x, mask = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[True, True], [False, True]])
    >>> torch.nested.masked_select(x, mask).unbind()
    (tensor([1, 2]), tensor([4]))
    """
    for name, x in (("tensor, given ", tensor), ("mask, given: ", mask)):
        if x.layout is not strided:
            raise RuntimeError(f"torch.nested.masked_select requires a strided {name}{x.layout}")
    values = tensor.masked_select(mask)
    counts = mask.expand(tensor.shape).sum(tensor.dim() - 1).view(-1)
    return view_jagged(values, ops.cat([counts.new_zeros(1), counts.cumsum(0)]))


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Any = None, out: Any = None
) -> Tensor:
    """A dense copy of a nested tensor, its rows filled up with `padding`.

    >>> nt = torch.nested.nested_tensor([[1, 2], [3]], layout=torch.jagged)
    >>> torch.nested.to_padded_tensor(nt, 0)
    tensor([[1, 2],
            [3, 0]])
    """
    if not input.is_nested:
        raise NotImplementedError("aten::to_padded_tensor of a tensor that is not nested")
    rules: Any = type(input)
    result: Tensor = rules.RULES["to_padded_tensor"](input, padding, output_size, out)
    return result
