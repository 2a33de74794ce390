"""torch.ao.nn.qat.dynamic: layers for training with dynamic quantization."""

from __future__ import annotations

from typing import Any

from ..layers import Linear as _Linear

__all__ = ["Linear"]


class Linear(_Linear):
    """A linear layer with fake-quantized weights; inputs are quantized dynamically at each call."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:
        from ....quantization.qconfig import _activation_is_memoryless

        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        if not _activation_is_memoryless(qconfig):
            raise ValueError(
                "Dynamic QAT requires a memoryless observer.This means a MovingAverage observer "
                "with averaging constant equal to 1")
