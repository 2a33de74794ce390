"""torch._tensor_str: the functions that format tensors, under PyTorch's private names."""

from __future__ import annotations

from .tensor.printing import OPTIONS as PRINT_OPTS
from .tensor.printing import (
    PrintOptions, format_array, format_tensor, get_printoptions, printoptions, set_printoptions,
)
from .tensor.tensor import Tensor

__all__ = ["PRINT_OPTS", "PrintOptions", "get_printoptions", "printoptions", "set_printoptions"]


def _tensor_str(self: Tensor, indent: int) -> str:
    """Format a tensor's elements in brackets; indent continuation lines by `indent`."""
    return format_array(self.detach()._array, indent)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return a tensor's repr, optionally with other contents in its brackets."""
    return format_tensor(self, tensor_contents=tensor_contents)


_str_intern = _str


def _add_suffixes(
    tensor_str: str, suffixes: list[str], indent: int, force_newline: bool = False
) -> str:
    """Append suffixes (`dtype=...`) to a tensor's text, on a new line if a line gets too long."""
    parts: list[str] = [tensor_str]
    length = len(tensor_str) - tensor_str.rfind("\n") - 1
    for suffix in suffixes:
        if force_newline or length + len(suffix) + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length, force_newline = indent + len(suffix), False
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join([*parts, ")"])
