"""Debug mode: compare what each rank is about to run and report the first difference.

Enabled by TORCH_DISTRIBUTED_DEBUG=DETAIL. Costs one small all-gather per collective.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tensor import Tensor
from .process_group import ProcessGroup

_BYTES = 1024
_DTYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}


def _fingerprint(number: int, name: str, tensors: Sequence[Tensor]) -> dict[str, Any]:
    """Return the attributes that must match on all ranks."""
    return {
        "SequenceNumber": number,
        "OpType": name,
        "TensorShape": [list(tensor.shape) for tensor in tensors],
        "TensorDtypes": [_DTYPES.get(tensor.dtype.name, tensor.dtype.name) for tensor in tensors],
    }


def _format_fingerprint(fingerprint: dict[str, Any]) -> str:
    """Format a fingerprint as PyTorch does."""
    shapes = ", ".join(str(shape) for shape in fingerprint["TensorShape"])
    text = f"SequenceNumber={fingerprint['SequenceNumber']}, OpType={fingerprint['OpType']}"
    if shapes:
        text += f", TensorShape={shapes}, TensorDtypes={', '.join(fingerprint['TensorDtypes'])}"
        text += ", TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)"
    return f"CollectiveFingerPrint({text})"


_ASPECTS = (
    ("SequenceNumber", "Sequence number"), ("OpType", "Op type"),
    ("TensorShape", "Tensor Tensor shapes"), ("TensorDtypes", "Tensor Tensor dtypes"),
)


def check_agreement(
    group: ProcessGroup, number: int, name: str, tensors: Sequence[Tensor]
) -> None:
    """Raise RuntimeError on all ranks if they are about to run different collectives."""
    local = _fingerprint(number, name, tensors)
    text = json.dumps(local).encode()
    if len(text) > _BYTES:  # too many tensors: compare their number and total size
        shapes = [[len(tensors), sum(tensor.numel() for tensor in tensors)]]
        text = json.dumps({**local, "TensorShape": shapes, "TensorDtypes": []}).encode()
    sent = np.zeros(_BYTES, np.uint8)
    sent[: len(text)] = np.frombuffer(text, np.uint8)
    received = np.empty((group.size(), _BYTES), np.uint8)
    group._engine.all_gather(received, sent)
    prints = [json.loads(bytes(row).rstrip(b"\0")) for row in received]
    here = group.rank()
    for rank, other in enumerate(prints):
        if other != prints[here]:
            raise _describe_mismatch(here, rank, prints[here], other)


def _describe_mismatch(rank: int, peer: int, local: dict[str, Any],
                       remote: dict[str, Any]) -> RuntimeError:
    aspects = "".join(
        f"\t {label}: {local[key]}vs {remote[key]}"
        for key, label in _ASPECTS
        if local[key] != remote[key]
    )
    error = RuntimeError(
        f"Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
        f"{_format_fingerprint(local)}, but Rank {peer} is running collective: "
        f"{_format_fingerprint(remote)}."
        f"Collectives differ in the following aspects: {aspects}"
    )
    error.add_note("All ranks of a group call the same collectives in the same order, on tensors "
                   "of the same shapes and dtypes.")
    return error
