"""torch.ao.quantization: models in 8-bit integers.

`quantize_dynamic` is the short way; `prepare` and `convert` quantize activations as well. What
there is not raises NotImplementedError with its name.
"""

from ...tensor.absent import lacking
from .fixed_parameters import (
    FixedQParamsFakeQuantize, FixedQParamsObserver, default_affine_fixed_qparams_fake_quant,
    default_affine_fixed_qparams_observer, default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_0to1_observer, default_fixed_qparams_range_neg1to1_fake_quant,
    default_fixed_qparams_range_neg1to1_observer, default_symmetric_fixed_qparams_fake_quant,
    default_symmetric_fixed_qparams_observer,
)
from .fake_quantize import (
    FakeQuantize, FakeQuantizeBase, FusedMovingAvgObsFakeQuantize, default_dynamic_fake_quant,
    default_embedding_fake_quant, default_embedding_fake_quant_4bit, default_fake_quant,
    default_fused_act_fake_quant, default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant, default_histogram_fake_quant,
    default_per_channel_weight_fake_quant, default_weight_fake_quant, disable_fake_quant,
    disable_observer, enable_fake_quant, enable_observer,
)
from .fuse_modules import fuse_modules, fuse_modules_qat
from .histogram_observer import HistogramObserver, default_histogram_observer
from .mappings import (
    get_default_dynamic_quant_module_mappings, get_default_qat_module_mappings,
    get_default_qconfig_propagation_list, get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
)
from .observer import (
    MinMaxObserver, MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver,
    NoopObserver, ObserverBase, PerChannelMinMaxObserver, PlaceholderObserver,
    UniformQuantizationObserverBase, default_dynamic_quant_observer,
    default_float_qparams_observer, default_float_qparams_observer_4bit, default_observer,
    default_per_channel_weight_observer, default_placeholder_observer, default_weight_observer,
)
from .qconfig import (
    QConfig, default_dynamic_qat_qconfig, default_dynamic_qconfig, default_embedding_qat_qconfig,
    default_embedding_qat_qconfig_4bit, float_qparams_weight_only_qconfig_4bit,
    default_per_channel_qconfig, default_qat_qconfig, default_qat_qconfig_v2, default_qconfig,
    get_default_qat_qconfig,
    float16_dynamic_qconfig, float16_static_qconfig, float_qparams_weight_only_qconfig,
    default_activation_only_qconfig, default_per_channel_symmetric_qnnpack_qconfig,
    default_symmetric_qnnpack_qconfig, default_weight_only_qconfig,
    get_default_qconfig, per_channel_dynamic_qconfig,
)
from .quantize import (
    add_quant_dequant, convert, prepare, prepare_qat, propagate_qconfig_, quantize,
    quantize_dynamic, quantize_qat, swap_module,
)
from .stubs import DeQuantStub, QuantStub, QuantWrapper
from . import utils as utils

__all__ = [
    "DeQuantStub",
    "FakeQuantize",
    "FakeQuantizeBase",
    "FixedQParamsFakeQuantize",
    "FixedQParamsObserver",
    "FusedMovingAvgObsFakeQuantize",
    "HistogramObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "QConfig",
    "QuantStub",
    "QuantWrapper",
    "UniformQuantizationObserverBase",
    "add_quant_dequant",
    "convert",
    "default_activation_only_qconfig",
    "default_affine_fixed_qparams_fake_quant",
    "default_affine_fixed_qparams_observer",
    "default_dynamic_fake_quant",
    "default_dynamic_qat_qconfig",
    "default_dynamic_qconfig",
    "default_dynamic_quant_observer",
    "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit",
    "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit",
    "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer",
    "default_float_qparams_observer_4bit",
    "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant",
    "default_histogram_fake_quant",
    "default_histogram_observer",
    "default_observer",
    "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig",
    "default_per_channel_weight_fake_quant",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_qat_qconfig",
    "default_qat_qconfig_v2",
    "default_qconfig",
    "default_symmetric_fixed_qparams_fake_quant",
    "default_symmetric_fixed_qparams_observer",
    "default_symmetric_qnnpack_qconfig",
    "default_weight_fake_quant",
    "default_weight_observer",
    "default_weight_only_qconfig",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
    "float16_dynamic_qconfig",
    "float16_static_qconfig",
    "float_qparams_weight_only_qconfig",
    "float_qparams_weight_only_qconfig_4bit",
    "fuse_modules",
    "fuse_modules_qat",
    "get_default_dynamic_quant_module_mappings",
    "get_default_qat_module_mappings",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_default_static_quant_reference_module_mappings",
    "per_channel_dynamic_qconfig",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
    "quantize_qat",
    "swap_module",
]

__getattr__ = lacking(__name__, (
    "QConfigMapping", "QuantType", "default_debug_observer", "get_default_qconfig_mapping",
))
