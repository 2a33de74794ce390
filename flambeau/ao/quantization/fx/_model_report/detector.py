"""torch.ao.quantization.fx._model_report.detector: PyTorch's name for all detectors."""

from .detector_base import *  # noqa: F403
from .dynamic_static_detector import DynamicStaticDetector as DynamicStaticDetector
from .input_weight_equalization_detector import (
    InputWeightEqualizationDetector as InputWeightEqualizationDetector,
)
from .outlier_detector import OutlierDetector as OutlierDetector
from .per_channel_detector import PerChannelDetector as PerChannelDetector
