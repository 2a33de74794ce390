"""torch.optim.lr_scheduler: learning-rate schedules."""

from __future__ import annotations

from .composite import ChainedScheduler, SequentialLR
from .cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from .cyclic import CyclicLR
from .decay import ExponentialLR, MultiStepLR, StepLR
from .function import LambdaLR, MultiplicativeLR
from .one_cycle import OneCycleLR
from .plateau import ReduceLROnPlateau
from .ramp import ConstantLR, LinearLR, PolynomialLR
from .scheduler import EPOCH_DEPRECATION_WARNING, LRScheduler

_LRScheduler = LRScheduler  # its name before PyTorch 2.0

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR",
    "StepLR",
]
