"""symbolic, symbolic_multi_out: operators that only an exported model computes.

Graphs hold them as `onnx_symbolic::_symbolic`, whose arguments are plain lists: attributes are
encoded by key, type ("i", "f", "s", or "is", "fs", "ss" for lists) and the span of their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...library import custom_op
from ...ops.core.operator import PUBLIC
from ...tensor import dtypes
from ...tensor.dtypes import dtype as DType
from ...tensor.tensor import Tensor
from ..graph_builder import DTYPES, short

__all__ = [
    "SYMBOLIC", "SYMBOLIC_MULTI_OUT", "decode_attributes", "symbolic", "symbolic_multi_out",
]

_NUMBERS = DTYPES
_BY_CODE = {code: name for name, code in _NUMBERS.items()}
_TYPES = ((bool, "i"), (int, "i"), (float, "f"), (str, "s"))
_SCHEMA = (
    "(Tensor?[] inputs, str op_type, {kind} {dtypes}, *, {shapes}, str[] attr_keys, "
    "str[] attr_types, int[][] attr_pos, int[] attr_ints, float[] attr_floats, str[] attr_strs, "
    "str[] metadata_props_keys, str[] metadata_props_values, str domain='', int? version=None) "
    "-> {result}")


def _find_code(kind: DType | int) -> int:
    """Return ONNX's number of a dtype."""
    if isinstance(kind, int):
        return kind
    if short(kind) not in _NUMBERS:
        raise RuntimeError(f"Unsupported dtype: {kind}")
    return _NUMBERS[short(kind)]


def _create_zeros(shape: Sequence[Any], code: int) -> Tensor:
    if code not in _BY_CODE:
        raise RuntimeError(f"{code} is invalid as an ONNX data type. Valid values are "
                           f"{sorted(_BY_CODE)}")
    name = _BY_CODE[code]
    zeros: Tensor = PUBLIC["torch"]["zeros"](
        list(shape), dtype=getattr(dtypes, "bool_" if name == "bool" else name))
    return zeros


def _encode(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as plain lists."""
    values: dict[str, list[Any]] = {"i": [], "f": [], "s": []}
    keys, types, spans = [], [], []
    for key, value in attributes.items():
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        letter = next((code for kind, code in _TYPES
                       if items and all(isinstance(item, kind) for item in items)), None)
        if letter is None and items and all(isinstance(item, (int, float)) for item in items):
            letter = "f"
        if letter is None:
            raise ValueError(f"Unsupported attribute type: {type(items[0] if items else value)}")
        keys.append(key)
        types.append(letter + "s" * isinstance(value, (list, tuple)))
        spans.append([len(values[letter]), len(values[letter]) + len(items)])
        convert = {"i": int, "f": float, "s": str}[letter]
        values[letter].extend(map(convert, items))
    return {"attr_keys": keys, "attr_types": types, "attr_pos": spans, "attr_ints": values["i"],
            "attr_floats": values["f"], "attr_strs": values["s"]}


def decode_attributes(encoded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that the keyword arguments of a graph's node encode."""
    values = {"i": encoded["attr_ints"], "f": encoded["attr_floats"], "s": encoded["attr_strs"]}
    spans = zip(encoded["attr_keys"], encoded["attr_types"], encoded["attr_pos"], strict=True)
    return {key: list(values[kind[0]][begin:end]) if len(kind) > 1 else values[kind[0]][begin]
            for key, kind, (begin, end) in spans}


def _compute_single(
    inputs: Any, op_type: str, onnx_dtype: int, *, shape: Sequence[Any], **encoded: Any
) -> Tensor:
    return _create_zeros(shape, onnx_dtype)


def _compute_several(
    inputs: Any, op_type: str, onnx_dtypes: Sequence[int], *, shapes: Sequence[Sequence[Any]],
    **encoded: Any,
) -> list[Tensor]:
    return [_create_zeros(shape, code) for shape, code in zip(shapes, onnx_dtypes, strict=True)]


_single: Any = custom_op(
    "onnx_symbolic::_symbolic", _compute_single, mutates_args=(), schema=_SCHEMA.format(
        kind="int", dtypes="onnx_dtype", shapes="SymInt[] shape", result="Tensor"))
_several: Any = custom_op(
    "onnx_symbolic::_symbolic_multi_out", _compute_several, mutates_args=(), schema=_SCHEMA.format(
        kind="int[]", dtypes="onnx_dtypes", shapes="SymInt[][] shapes", result="Tensor[]"))
_single.register_fake(_compute_single)
_several.register_fake(_compute_several)
SYMBOLIC, SYMBOLIC_MULTI_OUT = _single._opoverload, _several._opoverload


def _describe(
    domain_op: str, attrs: Mapping[str, Any] | None, version: int | None,
    metadata_props: Mapping[str, str] | None,
) -> tuple[str, dict[str, Any]]:
    """Return the operator's type, and the encoded rest."""
    domain, _, op_type = domain_op.rpartition("::")
    properties = dict(metadata_props or {})
    return op_type, {
        **_encode(attrs or {}), "metadata_props_keys": list(properties),
        "metadata_props_values": list(properties.values()), "domain": domain, "version": version}


def symbolic(
    domain_op: str, /, inputs: Sequence[Tensor | None], attrs: Mapping[str, Any] | None = None, *,
    dtype: DType | int, shape: Sequence[Any], version: int | None = None,
    metadata_props: Mapping[str, str] | None = None,
) -> Tensor:
    """Stand for an operator of ONNX, "domain::Name", which an export writes; return zeros.

    `dtype`, `shape`: of the result. `attrs`: numbers, texts, and lists of either. `version`: of the
    domain's operators.

    >>> torch.onnx.ops.symbolic("mine::Op", [torch.ones(2)], dtype=torch.int64, shape=[3])
    tensor([0, 0, 0])
    """
    op_type, encoded = _describe(domain_op, attrs, version, metadata_props)
    result: Tensor = SYMBOLIC(
        list(inputs), op_type, _find_code(dtype), shape=list(shape), **encoded)
    return result


def symbolic_multi_out(
    domain_op: str, /, inputs: Sequence[Tensor | None], attrs: Mapping[str, Any] | None = None, *,
    dtypes: Sequence[DType | int], shapes: Sequence[Sequence[Any]], version: int | None = None,
    metadata_props: Mapping[str, str] | None = None,
) -> Sequence[Tensor]:
    """`symbolic` of an operator with several results.

    >>> a, b = torch.onnx.ops.symbolic_multi_out(
    ...     "mine::Op", [], dtypes=[torch.int64, torch.bool], shapes=[[2], [1]])
    >>> a, b
    (tensor([0, 0]), tensor([False]))
    """
    if len(shapes) != len(dtypes):
        raise RuntimeError(f"Number of shapes ({len(shapes)}) must match number of dtypes "
                           f"({len(dtypes)})")
    op_type, encoded = _describe(domain_op, attrs, version, metadata_props)
    result: Sequence[Tensor] = SYMBOLIC_MULTI_OUT(
        list(inputs), op_type, [_find_code(kind) for kind in dtypes],
        shapes=[list(shape) for shape in shapes], **encoded)
    return result
