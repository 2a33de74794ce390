"""Checks of traces: `torch.jit.trace` runs the program again and compares results."""

from __future__ import annotations

from typing import Any

__all__ = ["TracingCheckError"]


class TracingCheckError(Exception):
    """The graphs or constants of two traces of one program differ."""

    def __init__(self, graph_diff_error: Any, tensor_compare_error: Any,
                 extra_msg: str | None = None) -> None:
        parts = ["Tracing failed sanity checks!\n"]
        if extra_msg is not None:
            parts.append(f"{extra_msg}\n")
        if graph_diff_error is not None:
            parts.append(f"ERROR: Graphs differed across invocations!\n{graph_diff_error}\n")
        if tensor_compare_error is not None:
            parts.append("ERROR: Tensor-valued Constant nodes differed in value across "
                         "invocations. This often indicates that the tracer has encountered "
                         f"untraceable code.\n{tensor_compare_error}\n")
        self.message = "".join(parts)
        super().__init__(self.message)
