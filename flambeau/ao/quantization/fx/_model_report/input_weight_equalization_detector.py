"""InputWeightEqualizationDetector: would equal ranges of columns reduce rounding errors?"""

from __future__ import annotations

from typing import Any, ClassVar

from ..... import ops
from .....fx import GraphModule
from .....nn import modules as nn
from .....tensor import Tensor
from ....nn import qat
from .detector_base import PRE_OBSERVER, DetectorBase, DetectorQConfigInfo, suggest

__all__ = ["InputWeightEqualizationDetector"]


class InputWeightEqualizationDetector(DetectorBase):
    """Finds layers that equalization would help.

    The measure of a channel is sqrt(w / W) / sqrt(i / I), with its ranges w and i of weight and
    input, and W and I of all channels. Equalization helps channels where it lies between
    `ratio_threshold` (0 to 1, else ValueError) and its inverse. `ch_axis`: the axis of channels.
    """

    SUPPORTED_MODULES: ClassVar[set[Any]] = {
        getattr(home, name) for home in (nn, qat)
        for name in ("Linear", "Conv1d", "Conv2d", "Conv3d")}
    DEFAULT_PRE_OBSERVER_NAME = PRE_OBSERVER
    WEIGHT_PREFIX, ACTIVATION_PREFIX = "weight_", "input_activation_"
    PER_CHANNEL_MAX_KEY, PER_CHANNEL_MIN_KEY = "per_channel_max", "per_channel_min"
    GLOBAL_MAX_KEY, GLOBAL_MIN_KEY = "global_max", "global_min"
    RECOMMENDED_KEY = "input_weight_equalization_recommended"
    COMP_METRIC_KEY = "input_weight_channel_comparison_metrics"
    THRESHOLD_KEY = "input_weight_threshold"
    CHANNEL_KEY = "input_weight_channel_axis"
    WEIGHT_STR, INPUT_STR = "weight", "input"
    DEFAULT_RECOMMEND_INPUT_WEIGHT_CHANNEL_RATIO = 0.4

    def __init__(self, ratio_threshold: float, ch_axis: int = 1) -> None:
        super().__init__()
        if not 0 < ratio_threshold < 1:
            raise ValueError("Make sure threshold is > 0 and < 1")
        self.ratio_threshold, self.ch_axis = ratio_threshold, ch_axis

    def get_detector_name(self) -> str:
        """Return the detector's name."""
        return "input_weight_equalization_detector"

    def _is_supported(self, module: Any, insert: bool = False) -> bool:
        """Whether a module gets an observer, or (without `insert`) has it."""
        return type(module) in self.SUPPORTED_MODULES and (insert or hasattr(module, PRE_OBSERVER))

    def determine_observer_insert_points(self, model: GraphModule) -> dict[str, dict[str, Any]]:
        """Observe the inputs of linear layers and convolutions."""
        points: dict[str, dict[str, Any]] = {}
        for path, module in model.named_modules():
            if self._is_supported(module, insert=True):
                points |= self._plan_observer(model, path, is_post=False, ch_axis=self.ch_axis)
        return points

    def get_qconfig_info(self, model: Any) -> dict[str, DetectorQConfigInfo]:
        """Suggest equalization, channel by channel."""
        return {path: suggest(path, is_equalization_recommended=facts[self.RECOMMENDED_KEY])
                for path, facts in self._find_facts(model).items()}

    def _summarize(self, prefix: str, low: Tensor, high: Tensor) -> dict[str, Tensor]:
        return {prefix + self.PER_CHANNEL_MAX_KEY: high, prefix + self.PER_CHANNEL_MIN_KEY: low,
                prefix + self.GLOBAL_MAX_KEY: high.max(), prefix + self.GLOBAL_MIN_KEY: low.min()}

    def _extract_input_info(self, model: GraphModule) -> dict[str, dict[str, Any]]:
        """Return the ranges of layers' inputs, by path."""
        observers = {path: getattr(module, PRE_OBSERVER) for path, module in model.named_modules()
                     if self._is_supported(module)}
        return {path: self._summarize(self.ACTIVATION_PREFIX, observer.min_val, observer.max_val)
                for path, observer in observers.items()}

    def _extract_weight_info(self, model: GraphModule) -> dict[str, dict[str, Any]]:
        """Return the ranges of layers' weights, by path."""
        ranges = {}
        for path, module in model.named_modules():
            if self._is_supported(module):
                weight: Any = module.weight
                channels = weight.detach().float().transpose(0, self.ch_axis).flatten(1)
                ranges[path] = self._summarize(self.WEIGHT_PREFIX, *ops.aminmax(channels, dim=1))
        return ranges

    def _calculate_range_ratio(
        self, info_dict: dict[str, Any], info_str: str, module_fqn: str
    ) -> Tensor:
        """Return channels' ranges over the range of all; ValueError if that is 0."""
        prefix = self.ACTIVATION_PREFIX if info_str == self.INPUT_STR else self.WEIGHT_PREFIX
        by_channel, of_all = (
            info_dict[prefix + high] - info_dict[prefix + low] for high, low in (
                (self.PER_CHANNEL_MAX_KEY, self.PER_CHANNEL_MIN_KEY),
                (self.GLOBAL_MAX_KEY, self.GLOBAL_MIN_KEY)))
        if of_all == 0:
            raise ValueError(
                f"The range of the {info_str} data for module {module_fqn} is 0, which means you "
                "have a constant value channel. We recommend removing this channel as it doesn't "
                "provide any useful information.")
        return by_channel / of_all

    def _generate_comparison_values(
        self, input_info: dict[str, Any], weight_info: dict[str, Any]
    ) -> dict[str, Tensor]:
        """Return the measures of layers' channels, by path; of groups, weights repeat."""
        measures = {}
        for path, inputs in input_info.items():
            if path not in weight_info:
                raise KeyError(f"Unable to find weight range stats for module {path}")
            weight = self._calculate_range_ratio(weight_info[path], self.WEIGHT_STR, path)
            entry = self._calculate_range_ratio(inputs, self.INPUT_STR, path)
            groups, rest = divmod(len(entry), len(weight))
            assert rest == 0, "input channels should be divisible by weight channels."
            measures[path] = weight.repeat(groups).sqrt() / entry.sqrt()
        return measures

    def _find_facts(self, model: GraphModule) -> dict[str, dict[str, Any]]:
        inputs, weights = self._extract_input_info(model), self._extract_weight_info(model)
        low, high = self.ratio_threshold, 1 / self.ratio_threshold
        return {path: {
            self.RECOMMENDED_KEY: [low <= value <= high for value in measure.tolist()],
            self.COMP_METRIC_KEY: measure, self.THRESHOLD_KEY: self.ratio_threshold,
            self.CHANNEL_KEY: self.ch_axis, **inputs[path], **weights[path],
        } for path, measure in self._generate_comparison_values(inputs, weights).items()}

    def _describe(self, path: str, helped: list[bool]) -> str:
        share = f"{sum(helped)}/{len(helped)} channels"
        if sum(helped) / len(helped) >= self.DEFAULT_RECOMMEND_INPUT_WEIGHT_CHANNEL_RATIO:
            advice = "to use"
            reason = (f"{share} would benefit and we expect significant reduction in "
                      "quantization error.")
        else:
            advice = "to not use"
            reason = ("we don't expect much improvement from input-weight equalization based on "
                      f"{share} benefitting from input-weight equalization being applied.")
        return (f"For Module {path} looked at with axis {self.ch_axis}: \n"
                f"\tWe suggest {advice} input weight equalization because {reason}\n")

    def generate_detector_report(self, model: GraphModule) -> tuple[str, dict[str, Any]]:
        """Return a text that suggests equalization or not, and the measures by path."""
        facts = self._find_facts(model)
        suggestions = "".join(self._describe(path, facts[path][self.RECOMMENDED_KEY])
                              for path in facts) or (
            "No applicable layers for suggestions. Only linear and conv valid.\n")
        return f"Input-Weight Equalization suggestions: \n{suggestions}", facts
