"""ScaledOutput: a module whose state holds the scale and zero point of its output."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn.module import Module


class ScaledOutput(Module):
    """Base class of quantized layers: `scale` and `zero_point` of the output."""

    scale: float
    zero_point: int

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = ops.tensor(self.scale)
        destination[prefix + "zero_point"] = ops.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)
