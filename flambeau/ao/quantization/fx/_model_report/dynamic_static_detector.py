"""DynamicStaticDetector: should inputs be quantized anew for each batch?"""

from __future__ import annotations

from typing import Any, ClassVar

from .....fx import GraphModule
from .....nn import modules as nn
from .detector_base import (
    POST_OBSERVER, PRE_OBSERVER, DetectorBase, DetectorQConfigInfo, suggest,
)

__all__ = ["DynamicStaticDetector"]


class DynamicStaticDetector(DetectorBase):
    """Finds layers whose values' ranges differ from batch to batch.

    The measure is the mean range of a batch over the range of all batches. Up to `tolerance`,
    values are non-stationary, and dynamic quantization is more accurate.
    """

    DEFAULT_PRE_OBSERVER_NAME, DEFAULT_POST_OBSERVER_NAME = PRE_OBSERVER, POST_OBSERVER
    STATIONARY_STR, NON_STATIONARY_STR = "stationary", "non-stationary"
    INPUT_ACTIVATION_PREFIX, OUTPUT_ACTIVATION_PREFIX = "input_activation_", "output_activation_"
    TOLERANCE_KEY = "dynamic_static_tolerance"
    DEFAULT_DYNAMIC_REC_KEY = "dynamic_recommended"
    PRE_OBS_COMP_STAT_KEY = INPUT_ACTIVATION_PREFIX + "dynamic_static_comp_stat"
    POST_OBS_COMP_STAT_KEY = OUTPUT_ACTIVATION_PREFIX + "dynamic_static_comp_stat"
    PRE_OBS_DATA_DIST_KEY = INPUT_ACTIVATION_PREFIX + "dynamic_static_data_classification"
    POST_OBS_DATA_DIST_KEY = OUTPUT_ACTIVATION_PREFIX + "dynamic_static_data_classification"
    IS_CURRENTLY_SUPPORTED_KEY = "is_dynamic_supported"
    DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED: ClassVar[set[Any]] = {nn.Linear}
    DEFAULT_DYNAMIC_STATIC_FUTURE_SUPPORTED: ClassVar[set[Any]] = {
        nn.Conv1d, nn.Conv2d, nn.Conv3d}

    def __init__(self, tolerance: float = 0.5) -> None:
        super().__init__()
        self.tolerance = tolerance
        self.useful_observer_fqns: set[str] = set()

    def get_detector_name(self) -> str:
        """Return the detector's name."""
        return "dynamic_vs_static_detector"

    def _is_supported(self, module: Any, insert: bool = False) -> bool:
        """Whether a module gets observers, or (without `insert`) has them."""
        layers = (*self.DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED,
                  *self.DEFAULT_DYNAMIC_STATIC_FUTURE_SUPPORTED)
        return isinstance(module, layers) and (insert or (
            hasattr(module, PRE_OBSERVER) and hasattr(module, POST_OBSERVER)))

    def determine_observer_insert_points(self, model: GraphModule) -> dict[str, dict[str, Any]]:
        """Observe the inputs and the outputs of linear layers and convolutions."""
        points: dict[str, dict[str, Any]] = {}
        for path, module in model.named_modules():
            if self._is_supported(module, insert=True):
                points |= self._plan_observer(model, path, is_post=False)
                points |= self._plan_observer(model, path, is_post=True)
        return points

    def get_qconfig_info(self, model: Any) -> dict[str, DetectorQConfigInfo]:
        """Suggest dynamic quantization of layers with non-stationary outputs."""
        return {path: suggest(path, is_activation_dynamic=facts[self.DEFAULT_DYNAMIC_REC_KEY])
                for path, facts in self._generate_dict_info(model).items()}

    def _classify(self, ratio: Any) -> str:
        return self.STATIONARY_STR if ratio > self.tolerance else self.NON_STATIONARY_STR

    def _generate_dict_info(self, model: GraphModule) -> dict[str, Any]:
        """Return the measures before and after each layer, by path."""
        facts = {}
        for path, module in model.named_modules():
            if not self._is_supported(module):
                continue
            before, after = (getattr(module, name).get_batch_to_epoch_ratio()
                             for name in (PRE_OBSERVER, POST_OBSERVER))
            facts[path] = {
                self.TOLERANCE_KEY: self.tolerance,
                self.DEFAULT_DYNAMIC_REC_KEY: after <= self.tolerance,
                self.PRE_OBS_COMP_STAT_KEY: before,
                self.PRE_OBS_DATA_DIST_KEY: self._classify(before),
                self.POST_OBS_COMP_STAT_KEY: after,
                self.POST_OBS_DATA_DIST_KEY: self._classify(after),
                self.IS_CURRENTLY_SUPPORTED_KEY: isinstance(
                    module, tuple(self.DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED)),
            }
        return facts

    def _describe(self, path: str, facts: dict[str, Any]) -> str:
        before, after = facts[self.PRE_OBS_DATA_DIST_KEY], facts[self.POST_OBS_DATA_DIST_KEY]
        kind, benefit = "static", "You can increase model efficiency if you use static quantization"
        if facts[self.DEFAULT_DYNAMIC_REC_KEY]:
            kind = "dynamic"
            benefit = "You will get more accurate results if you use dynamic quantization"
            if not facts[self.IS_CURRENTLY_SUPPORTED_KEY]:
                benefit += ". This layer is not yet supported for dynamic quantization"
        if (before, after) == (self.NON_STATIONARY_STR, self.STATIONARY_STR):
            benefit += (". We recommend to add a dynamic quantize per tensor layer before this "
                        "module if it is static. This is because the input to this module has a "
                        "non-stationary distribution")
        return (f"For module {path} it is suggested to use {kind} quantization because the "
                f"distribution of data before {path} is {before} and the distribution after is "
                f"{after}. {benefit}.\n")

    def generate_detector_report(self, model: GraphModule) -> tuple[str, dict[str, Any]]:
        """Return a text that suggests a kind of quantization, and the measures by path."""
        facts = self._generate_dict_info(model)
        suggestions = "".join(self._describe(path, facts[path]) for path in facts) or (
            "No applicable layers for suggestions. Only linear and conv are valid.\n")
        return f"Dynamic vs. Static Quantization suggestions: \n{suggestions}", facts
