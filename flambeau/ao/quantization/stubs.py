"""Stubs that mark where a quantized model quantizes its input and returns to floats."""

from __future__ import annotations

from typing import Any

from ...nn import Module
from ...tensor import Tensor

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """Quantizes its input in a converted model; before, the identity.

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
    """Dequantizes its input in a converted model; before, the identity.

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
        """Return the module's result."""
        return self.dequant(self.module(self.quant(X)))
