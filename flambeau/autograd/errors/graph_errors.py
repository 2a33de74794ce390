"""Errors of graphs that cannot run backward: freed, overwritten, or recorded in inference mode.

Each has PyTorch's message; most add a note about the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...native.foundation.user_frames import add_notes
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..node import Node


def raise_freed(node: Node) -> None:
    """Raise PyTorch's error for a second backward through a freed graph."""
    from .missing_graph import explain_freed_graph

    error = RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after "
        "calling backward."
    )
    raise add_notes(error, f"The first freed node is {node.name()}.", explain_freed_graph(node))


def raise_stale(
    node_name: str, array: np.ndarray, counter: Any, version: int, source: Tensor | None = None
) -> None:
    """Raise PyTorch's error for an overwritten saved tensor; a note names the writing line.

    source: the saved input; None if the node saved its output.
    """
    producer = None
    if source is not None:
        producer = "" if source.grad_fn is None else source.grad_fn.name()
    raise_overwritten(node_name, array.shape, array.dtype, counter, version, producer)


def raise_overwritten(
    node_name: str, shape: tuple[int, ...], dtype: np.dtype, counter: Any, version: int,
    producer: str | None,
) -> None:
    """Raise the error of `raise_stale`, given what it says about the tensor.

    producer: the name of the saved input's own node, "" for a leaf; None for the node's output.
    """
    name = node_name if producer is None else producer
    role = f", which is output 0 of {name.rstrip('0123456789').removesuffix('Backward')}," \
        if name else ""
    kind = FROM_NUMPY[dtype]
    legacy = {"float32": "FloatTensor", "float64": "DoubleTensor", "float16": "HalfTensor",
              "int64": "LongTensor", "int32": "IntTensor"}.get(kind.name, f"{kind.name} tensor")
    saved = "its output" if producer is None else "an input"
    writer = "" if counter.writer is None else (
        f", which was last written in place at {counter.line()}: write `x = x + 1` instead of "
        "`x += 1`, or clone it first"
    )
    raise add_notes(RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [torch.{legacy} {list(shape)}]{role} is at version {counter.value}; "
        f"expected version {version} instead. Hint: enable anomaly detection to find the operation "
        "that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, "
        "check_nan=False)."
    ), f"{node_name} saved {saved}{writer}.")


def raise_inference() -> None:
    """Raise PyTorch's error for saving a tensor of inference mode."""
    raise RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
        "`torch.inference_mode()`."
    )
