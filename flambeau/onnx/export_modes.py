"""Modes of a TorchScript export: training or evaluation, and what becomes of ATen operators."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

__all__ = ["OperatorExportTypes", "TrainingMode", "select_model_mode_for_export"]


class TrainingMode(enum.Enum):
    """The mode in which a module is exported.

    >>> torch.onnx.TrainingMode.TRAINING
    <TrainingMode.TRAINING: 2>
    """

    EVAL, PRESERVE, TRAINING = range(3)

    def __int__(self) -> int:
        return self.value


class OperatorExportTypes(enum.Enum):
    """The form of operators in the file. Whatever is chosen, they become ONNX operators.

    >>> int(torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK)
    2
    """

    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = range(4)

    def __int__(self) -> int:
        return self.value


@contextlib.contextmanager
def select_model_mode_for_export(model: Any, mode: TrainingMode) -> Iterator[None]:
    """Context in which a module trains or evaluates; it has its former mode afterwards.

    Raises TypeError if `mode` is not a TrainingMode.

    >>> net = nn.Linear(3, 2)
    >>> with torch.onnx.select_model_mode_for_export(net, torch.onnx.TrainingMode.EVAL):
    ...     net.training
    False
    >>> net.training
    True
    """
    if not isinstance(mode, TrainingMode):
        raise TypeError(
            f"'mode' should be a torch.onnx.TrainingMode enum, but got '{type(mode)}'.")
    if mode is TrainingMode.PRESERVE or not hasattr(model, "training"):
        yield
        return
    before = model.training
    model.train(mode is TrainingMode.TRAINING)
    try:
        yield
    finally:
        model.train(before)
