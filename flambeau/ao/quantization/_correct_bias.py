"""Bias correction: subtracts the mean error of quantized layers from their biases.

Nagel et al. 2019 (https://arxiv.org/abs/1906.04721), section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...nn import modules
from ...tensor import Tensor
from ..nn import quantized
from ..ns import _numeric_suite

__all__ = ["MeanShadowLogger", "bias_correction", "get_module", "get_param", "parent_child_names"]

_supported_modules = {modules.Linear, modules.Conv2d}
_supported_modules_quantized = {quantized.Linear, quantized.Conv2d}


def get_module(model: Any, name: str) -> Any:
    """Return the submodule at a path; KeyError if there is none."""
    return dict(model.named_modules())[name]


def parent_child_names(name: str) -> tuple[str, str]:
    """Split a path into its parent's path, "" for the model itself, and the last name."""
    parent, _, child = name.rpartition(".")
    return parent, child


def get_param(module: Any, attr: str) -> Any:
    """Return a parameter, which float modules have as a tensor and quantized ones as a method."""
    parameter = getattr(module, attr, None)
    return parameter() if callable(parameter) else parameter


class MeanShadowLogger(_numeric_suite.Logger):
    """Keeps the mean outputs of a quantized module and of its float shadow."""

    count: int

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def forward(self, x: Tensor, y: Tensor) -> None:  # type: ignore[override]
        """Add the quantized module's output x and its shadow's y to the means."""
        self.count += 1
        for name, output in (("quantized", x.dequantize() if x.is_quantized else x), ("float", y)):
            total = self.sums.get(name)
            self.sums[name] = output if total is None else total + output
            self.stats[name] = self.sums[name] / self.count

    def clear(self) -> None:
        """Forget all outputs."""
        self.stats = {"float": None, "quantized": None}
        self.sums: dict[str, Tensor] = {}
        self.count = 0


def bias_correction(
    float_model: Any, quantized_model: Any, img_data: Iterable[Any],
    target_modules: Iterable[Any] = _supported_modules_quantized,
    neval_batches: int | None = None,
) -> None:
    """Shift the biases of a quantized model by the mean errors of its layers, in place.

    A layer's error is measured after the biases before it were corrected. The layers stay within
    `torch.ao.ns._numeric_suite.Shadow` modules.

    Args:
        img_data: Batches, whose first items are the model's inputs.
        target_modules: Classes of layers to correct.
        neval_batches: How many batches to run at most.
    """
    _numeric_suite.prepare_model_with_stubs(
        float_model, quantized_model, _supported_modules, MeanShadowLogger)
    loggers = [m for m in quantized_model.modules() if isinstance(m, MeanShadowLogger)]
    targets = [(path, module) for path, module in quantized_model.named_modules()
               if type(module) in target_modules]
    for path, module in targets:
        bias = get_param(module, "bias")
        if bias is None:
            continue
        for count, batch in enumerate(img_data, start=1):
            quantized_model(batch[0])
            if count == neval_batches:
                break
        logger = get_module(quantized_model, parent_child_names(path)[0]).logger
        error = logger.stats["quantized"] - logger.stats["float"]
        axes = [axis for axis in range(error.dim()) if axis != 1]  # axis 1: output channels
        bias.data.sub_(error.mean(axes))
        for each in loggers:
            each.clear()
