"""torch.profiler._pattern_matcher, which looks for habits that cost time on GPUs: not here."""

from __future__ import annotations

from ..tensor.absent import lacking

_NAMES = (
    "Conv2dBiasFollowedByBatchNorm2dPattern", "ExtraCUDACopyPattern", "FP32MatMulPattern",
    "ForLoopIndexingPattern", "GradNotSetToNonePattern", "MatMulDimInFP16Pattern", "NamePattern",
    "OptimizerSingleTensorPattern", "Pattern", "SynchronizedDataLoaderPattern",
    "report_all_anti_patterns",
)
__getattr__ = lacking(__name__, _NAMES)
