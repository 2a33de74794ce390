"""torch.ao.quantization: the marks that models carry, which change nothing while they compute in
floating point. Preparing and converting a model raises NotImplementedError.
"""

from ...tensor.absent import lacking
from .stubs import DeQuantStub, QuantStub, QuantWrapper

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]

__getattr__ = lacking(__name__, (
    "FakeQuantize", "FakeQuantizeBase", "HistogramObserver", "MinMaxObserver",
    "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "NoopObserver",
    "ObserverBase", "PerChannelMinMaxObserver", "PlaceholderObserver", "QConfig", "QConfigMapping",
    "QuantType", "convert", "default_debug_observer", "default_dynamic_qconfig",
    "default_fake_quant", "default_histogram_observer", "default_observer",
    "default_per_channel_qconfig", "default_per_channel_weight_observer", "default_qat_qconfig",
    "default_qconfig", "default_weight_fake_quant", "default_weight_observer", "disable_fake_quant",
    "disable_observer", "enable_fake_quant", "enable_observer", "float_qparams_weight_only_qconfig",
    "fuse_modules", "fuse_modules_qat", "get_default_qat_qconfig", "get_default_qconfig",
    "get_default_qconfig_mapping", "prepare", "prepare_qat", "quantize", "quantize_dynamic",
    "quantize_qat", "swap_module",
))
