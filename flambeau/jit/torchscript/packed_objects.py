"""Packed weights in PyTorch's archives: objects of C++ classes, rebuilt from their states.

A state is validated data, tensors and numbers; nothing in it is called.
"""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

from ...ops import quantized
from ...tensor.tensor import Tensor

__all__ = ["PackedObject", "restore", "start"]

PackedObject = Any  # an instance of one of the classes below
_PREFIX = "__torch__.torch.classes."
_CLASSES = {
    "quantized.LinearPackedParamsBase": "LinearPackedParams",
    "quantized.Conv2dPackedParamsBase": "ConvPackedParams",
    "quantized.Conv3dPackedParamsBase": "ConvPackedParams",
    "quantized.EmbeddingPackedParamsBase": "EmbeddingPackedParams",
    "rnn.CellParamsBase": "CellParams",
}


def start(qualified_name: str) -> type:
    """Return a class of packed weights. Raise UnpicklingError for any other C++ class."""
    name = _CLASSES.get(qualified_name.removeprefix(_PREFIX))
    if name is None:
        raise UnpicklingError(f"{qualified_name} is a C++ class that flambeau lacks")
    return _create_class(name)


def _create_class(name: str) -> type:
    if name == "ConvPackedParams":
        return quantized.packed_conv.ConvPackedParams
    if name == "EmbeddingPackedParams":
        return quantized.packed_tables.EmbeddingPackedParams
    result: type = getattr(quantized, name)
    return result


def restore(target: PackedObject, state: Any) -> None:
    """Initialize packed weights from an archive's state. Raise UnpicklingError if damaged."""
    kind = type(target)
    try:
        if kind is _create_class("LinearPackedParams"):
            _restore_linear(target, state)
        elif kind is _create_class("ConvPackedParams"):
            kind.__init__(target, *_read_geometry(state))
        elif kind is _create_class("EmbeddingPackedParams"):
            kind.__init__(target, state[1][0])
        else:
            _restore_cell(target, state)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise UnpicklingError(f"the state of packed weights: {error}") from error


def _restore_linear(target: PackedObject, state: Any) -> None:
    weight, bias = _pack_tensors(*state)
    if not weight.is_quantized:  # rounded to float16 before multiplying
        target.__class__ = _create_class("LinearPackedParamsFp16")
    type(target).__init__(target, weight, bias)


def _read_geometry(state: Any) -> tuple[Any, ...]:
    """Return the constructor arguments of packed convolutions from either later layout."""
    _, first, second = state
    if isinstance(first[0], Tensor):  # numbers in a tensor, then the weight; bias separate
        numbers, weight = [int(v) for v in first[0].tolist()], first[1]
        bias = second[0] if second else None
    else:
        numbers = [int(v) for v in first]
        weight = next(t for t in second if t is not None and t.is_quantized)
        bias = next((t for t in second if t is not None and not t.is_quantized), None)
    weight, bias = _pack_tensors(weight, bias)
    rank = numbers[0]
    stride, padding, dilation, output_padding = (
        numbers[1 + part * rank:1 + (part + 1) * rank] for part in range(4))
    groups, transposed = numbers[1 + 4 * rank:3 + 4 * rank]
    return (weight, bias, stride, padding, dilation, groups, bool(transposed), output_padding)


def _restore_cell(target: PackedObject, state: Any) -> None:
    name, _, _, numbers, parts = state
    kinds = (_create_class("LinearPackedParams"), _create_class("LinearPackedParamsFp16"))
    if name not in ("quantized_dynamic", "quantized_fp16") or len(parts) != 2 \
            or not all(isinstance(part, kinds) for part in parts):
        raise ValueError(f"a cell of kind {name!r}")
    type(target).__init__(target, *parts, bool(numbers and numbers[0]))


def _pack_tensors(weight: Any, bias: Any) -> tuple[Any, Any]:
    if not isinstance(weight, Tensor) or not (bias is None or isinstance(bias, Tensor)):
        raise ValueError("weights are tensors")
    return weight, bias
