"""OutlierDetector: do a few values lie far beyond the others?"""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....fx import GraphModule
from .....tensor import Tensor
from ...observer import _is_activation_post_process
from .detector_base import PRE_OBSERVER, DetectorBase, DetectorQConfigInfo

__all__ = ["OutlierDetector"]


class OutlierDetector(DetectorBase):
    """Finds channels of layers' inputs with outliers.

    The measure is the ratio of a channel's maximum to a quantile, in the mean over batches.

    Args:
        ratio_threshold: From which ratio on a channel has outliers.
        reference_percentile: The quantile, from 0 to 1, else AssertionError.
        fraction_batches_used_threshold: The share of batches, from 0 to 1, with values other than
            0, below which a channel's ratio is not reliable.
        ch_axis: The axis of channels.
    """

    DEFAULT_PRE_OBSERVER_NAME = PRE_OBSERVER
    INPUT_ACTIVATION_PREFIX = "input_activation_"
    OUTLIER_KEY = "outliers_detected"
    NUM_BATCHES_KEY = "outlier_detection_batches_used"
    IS_SUFFICIENT_BATCHES_KEY = "outlier_detection_is_sufficient_batches"
    COMP_METRIC_KEY = "outlier_detection_percentile_ratios"
    RATIO_THRES_KEY = "outlier_detection_ratio_threshold"
    REF_PERCENTILE_KEY = "outlier_detection_reference_percentile"
    CHANNEL_AXIS_KEY = "outlier_detection_channel_axis"
    MAX_VALS_KEY = INPUT_ACTIVATION_PREFIX + "per_channel_max"
    CONSTANT_COUNTS_KEY = "constant_batch_counts"

    def __init__(
        self, ratio_threshold: float = 3.5, reference_percentile: float = 0.975,
        fraction_batches_used_threshold: float = 0.95, ch_axis: int = 1,
    ) -> None:
        super().__init__()
        for name, value in (("reference_percentile", reference_percentile),
                            ("fraction_batches_used_threshold", fraction_batches_used_threshold)):
            assert 0 <= value <= 1, f"{name} must be between 0 and 1"
        self.ratio_threshold, self.reference_percentile = ratio_threshold, reference_percentile
        self.fraction_batches_used_threshold = fraction_batches_used_threshold
        self.ch_axis = ch_axis

    def get_detector_name(self) -> str:
        """Return the detector's name."""
        return "outlier_detector"

    def _supports_insertion(self, module: Any) -> bool:
        """Whether a module's inputs are observed: of leaves that are no observers."""
        return not list(module.children()) and not _is_activation_post_process(module)

    def _supports_report_gen(self, module: Any) -> bool:
        """Whether a module's inputs were observed."""
        return hasattr(module, PRE_OBSERVER)

    def determine_observer_insert_points(self, model: GraphModule) -> dict[str, dict[str, Any]]:
        """Observe the inputs of all leaves."""
        points: dict[str, dict[str, Any]] = {}
        for path, module in model.named_modules():
            if self._supports_insertion(module):
                points |= self._plan_observer(model, path, is_post=False, ch_axis=self.ch_axis,
                                              comp_percentile=self.reference_percentile)
        return points

    def get_qconfig_info(self, model: Any) -> dict[str, DetectorQConfigInfo]:
        """Suggest nothing."""
        return {}

    def _calculate_outlier_info(
        self, percentile_ratios: Tensor, counted_batches: Tensor, total_batches: int
    ) -> dict[str, list[bool]]:
        """Return whether channels have outliers, and whether their ratios are reliable."""
        return {
            self.OUTLIER_KEY: [ratio > self.ratio_threshold
                               for ratio in percentile_ratios.tolist()],
            self.IS_SUFFICIENT_BATCHES_KEY: [
                count / total_batches >= self.fraction_batches_used_threshold
                for count in counted_batches.tolist()]}

    def _generate_info_dict(self, model: GraphModule) -> dict[str, dict[str, Any]]:
        """Return the measures of layers' channels, by path."""
        facts: dict[str, dict[str, Any]] = {}
        for path, module in model.named_modules():
            if not self._supports_report_gen(module):
                continue
            observer: Any = getattr(module, PRE_OBSERVER)
            ratios = observer.average_percentile_ratio.abs()
            ratios = ops.where(ratios < 1, 1 / ratios, ratios)  # of negative values, say
            facts[path] = {
                self.CHANNEL_AXIS_KEY: self.ch_axis,
                self.REF_PERCENTILE_KEY: self.reference_percentile,
                self.RATIO_THRES_KEY: self.ratio_threshold,
                self.COMP_METRIC_KEY: ratios,
                self.NUM_BATCHES_KEY: observer.percentile_batches_tracked,
                **self._calculate_outlier_info(ratios, observer.percentile_batches_tracked,
                                               observer.num_batches_tracked),
                self.CONSTANT_COUNTS_KEY: observer.constant_channels,
                self.MAX_VALS_KEY: observer.max_val,
            }
        return facts

    def _describe(self, path: str, facts: dict[str, Any]) -> str:
        """Return what is remarkable about a layer's channels, or ""."""
        text = ""
        for channel, has_outliers in enumerate(facts[self.OUTLIER_KEY]):
            if has_outliers:
                text += (f"\tFor channel {channel}, we found outliers in the preceding activation "
                         "data with a max value across all batches of "
                         f"{facts[self.MAX_VALS_KEY][channel]}.\n")
            constant = facts[self.CONSTANT_COUNTS_KEY][channel]
            if constant != 0:
                text += (f"\tFor channel {channel}, we found {constant} constant value batches. "
                         "We recommend taking a look at the dict and data to see how frequent "
                         "this occurred and why.\n")
        return text and f"For Module {path} looked at with axis {self.ch_axis}: \n{text}"

    def generate_detector_report(self, model: GraphModule) -> tuple[str, dict[str, Any]]:
        """Return a text that names channels with outliers, and the measures by path."""
        facts = self._generate_info_dict(model)
        remarks = "".join(self._describe(path, facts[path]) for path in facts)
        remarks += (
            "Note: outlier detection is only reliable for stationary distributions. We recommend "
            "running the static vs. dynamic detector to ensure activation data before modules "
            "above is stationary to ensure the most accurate results."
        ) if remarks else "There were no outliers found in the activations.\n"
        return f"Outlier detection report: \n{remarks}", facts
