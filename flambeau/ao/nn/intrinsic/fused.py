"""Sequences of float modules that are quantized as one."""

from __future__ import annotations

from typing import Any

from ....nn import modules
from ....nn.modules import Sequential


class _FusedModule(Sequential):
    """Modules that are one to quantization."""

    KINDS: tuple[Any, ...] = ()

    def __init__(self, *parts: Any) -> None:
        for part, kind in zip(parts, self.KINDS, strict=True):
            if not isinstance(part, kind):
                raise AssertionError(
                    f"Incorrect types for input modules{''.join(str(type(p)) for p in parts)}")
        super().__init__(*parts)


def _declare(name: str, *kinds: Any) -> Any:
    return type(name, (_FusedModule,), {"KINDS": kinds, "__module__": __name__,
                                        "__doc__": f"{' and '.join(k.__name__ for k in kinds)}."})


_RELU = modules.ReLU
ConvReLU1d = _declare("ConvReLU1d", modules.Conv1d, _RELU)
ConvReLU2d = _declare("ConvReLU2d", modules.Conv2d, _RELU)
ConvReLU3d = _declare("ConvReLU3d", modules.Conv3d, _RELU)
LinearReLU = _declare("LinearReLU", modules.Linear, _RELU)
ConvBn1d = _declare("ConvBn1d", modules.Conv1d, modules.BatchNorm1d)
ConvBn2d = _declare("ConvBn2d", modules.Conv2d, modules.BatchNorm2d)
ConvBn3d = _declare("ConvBn3d", modules.Conv3d, modules.BatchNorm3d)
ConvBnReLU1d = _declare("ConvBnReLU1d", modules.Conv1d, modules.BatchNorm1d, _RELU)
ConvBnReLU2d = _declare("ConvBnReLU2d", modules.Conv2d, modules.BatchNorm2d, _RELU)
ConvBnReLU3d = _declare("ConvBnReLU3d", modules.Conv3d, modules.BatchNorm3d, _RELU)
BNReLU2d = _declare("BNReLU2d", modules.BatchNorm2d, _RELU)
BNReLU3d = _declare("BNReLU3d", modules.BatchNorm3d, _RELU)
