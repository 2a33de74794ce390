"""Fused float modules: sequences, such as convolution and ReLU, that are quantized as one."""

from __future__ import annotations

from typing import Any

from ....nn import modules
from ....nn.modules import Sequential


class _FusedModule(Sequential):
    """A sequence that is quantized as one module. `KINDS` are the types of its parts."""

    KINDS: tuple[Any, ...] = ()

    def __init__(self, *members: Any) -> None:
        for module, expected_class in zip(members, self.KINDS, strict=True):
            if not isinstance(module, expected_class):
                raise AssertionError(
                    f"Incorrect types for input modules{''.join(str(type(p)) for p in members)}")
        super().__init__(*members)


class ConvReLU1d(_FusedModule):
    """Conv1d and ReLU."""

    KINDS = (modules.Conv1d, modules.ReLU)


class ConvReLU2d(_FusedModule):
    """Conv2d and ReLU."""

    KINDS = (modules.Conv2d, modules.ReLU)


class ConvReLU3d(_FusedModule):
    """Conv3d and ReLU."""

    KINDS = (modules.Conv3d, modules.ReLU)


class LinearReLU(_FusedModule):
    """Linear and ReLU."""

    KINDS = (modules.Linear, modules.ReLU)


class ConvBn1d(_FusedModule):
    """Conv1d and BatchNorm1d."""

    KINDS = (modules.Conv1d, modules.BatchNorm1d)


class ConvBn2d(_FusedModule):
    """Conv2d and BatchNorm2d."""

    KINDS = (modules.Conv2d, modules.BatchNorm2d)


class ConvBn3d(_FusedModule):
    """Conv3d and BatchNorm3d."""

    KINDS = (modules.Conv3d, modules.BatchNorm3d)


class ConvBnReLU1d(_FusedModule):
    """Conv1d and BatchNorm1d and ReLU."""

    KINDS = (modules.Conv1d, modules.BatchNorm1d, modules.ReLU)


class ConvBnReLU2d(_FusedModule):
    """Conv2d and BatchNorm2d and ReLU."""

    KINDS = (modules.Conv2d, modules.BatchNorm2d, modules.ReLU)


class ConvBnReLU3d(_FusedModule):
    """Conv3d and BatchNorm3d and ReLU."""

    KINDS = (modules.Conv3d, modules.BatchNorm3d, modules.ReLU)


class BNReLU2d(_FusedModule):
    """BatchNorm2d and ReLU."""

    KINDS = (modules.BatchNorm2d, modules.ReLU)


class BNReLU3d(_FusedModule):
    """BatchNorm3d and ReLU."""

    KINDS = (modules.BatchNorm3d, modules.ReLU)


class LinearBn1d(_FusedModule):
    """Linear and BatchNorm1d."""

    KINDS = (modules.Linear, modules.BatchNorm1d)


class LinearLeakyReLU(_FusedModule):
    """Linear and LeakyReLU."""

    KINDS = (modules.Linear, modules.LeakyReLU)


class LinearTanh(_FusedModule):
    """Linear and Tanh."""

    KINDS = (modules.Linear, modules.Tanh)


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
