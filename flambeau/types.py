"""torch.types: names of types, for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any

from .tensor import Size, Tensor, device, dtype
from .tensor.layout import layout
from .tensor.storage import TypedStorage, UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage", "Tensor"]

_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype, _device, _layout = dtype, device, layout
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_size = Size | list[builtins.int] | tuple[builtins.int, ...]

Number = builtins.int | builtins.float | builtins.bool
Device = device | str | builtins.int | None
FileLike = str | os.PathLike[str] | Any
Storage = TypedStorage | UntypedStorage
