"""Marks where a quantised model would quantise its input and return to floating point."""

from __future__ import annotations

from typing import Any

from ...nn import Module
from ...tensor import Tensor

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """The place where values would be quantised; until a model is converted, the identity.

    >>> from flambeau.ao.quantization import QuantStub
    >>> QuantStub()(torch.tensor([1.5]))
    tensor([1.5000])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """The input itself."""
        return x


class DeQuantStub(Module):
    """The place where values would return to floating point; the identity as well.

    >>> from flambeau.ao.quantization import DeQuantStub
    >>> DeQuantStub()(torch.tensor([1.5]))
    tensor([1.5000])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """The input itself."""
        return x


class QuantWrapper(Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        """What the module gives."""
        return self.dequant(self.module(self.quant(X)))
