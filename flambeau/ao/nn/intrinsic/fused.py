"""Fused float modules: sequences, such as convolution and ReLU, that are quantized as one."""

from __future__ import annotations

from typing import Any

from ....nn import modules
from ....nn.modules import Sequential


class _FusedModule(Sequential):
    """A sequence that is quantized as one module. `KINDS` are the types of its parts."""

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
LinearBn1d = _declare("LinearBn1d", modules.Linear, modules.BatchNorm1d)
LinearLeakyReLU = _declare("LinearLeakyReLU", modules.Linear, modules.LeakyReLU)
LinearTanh = _declare("LinearTanh", modules.Linear, modules.Tanh)


class ConvAdd2d(_FusedModule):
    """A convolution, then the sum of its result and another tensor, by `add`."""

    KINDS = (modules.Conv2d,)

    def __init__(self, conv: Any, add: Any) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Any, x2: Any) -> Any:  # type: ignore[override]
        """add(conv(x1), x2)."""
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution, then the sum of its result and another tensor, by `add`, then ReLU."""

    KINDS = (modules.Conv2d,)

    def __init__(self, conv: Any, add: Any, relu: Any) -> None:
        super().__init__(conv)
        self.add, self.relu = add, relu

    def forward(self, x1: Any, x2: Any) -> Any:  # type: ignore[override]
        """relu(add(conv(x1), x2))."""
        return self.relu(self.add(self[0](x1), x2))
