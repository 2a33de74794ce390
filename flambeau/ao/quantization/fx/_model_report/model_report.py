"""ModelReport: observes a prepared model for detectors, and collects their reports."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from .....fx import GraphModule
from .....tensor import Tensor
from ...qconfig_mapping import QConfigMapping
from .detector_base import (
    DETECTOR_IS_POST_OBS_KEY, DETECTOR_OBS_ARGS_KEY, DETECTOR_OBS_TO_INSERT_KEY,
    DETECTOR_TARGET_NODE_KEY, DetectorBase, DetectorQConfigInfo,
)
from .model_report_visualizer import ModelReportVisualizer

__all__ = ["ModelReport"]


def _differ(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return not isinstance(b, Tensor) or bool((a != b).any())
    return bool(a != b)


class ModelReport:
    """Reports on one model.

    Call `prepare_detailed_calibration`, run the model on samples, then `generate_model_report`;
    after that, `generate_visualizer` shows the measures, and `generate_qconfig_mapping` and
    `generate_equalization_mapping` follow the suggestions (before observers are removed).

    Args:
        model: A model of `prepare_fx`, or a traced one.
        desired_report_detectors: What to look at; ValueError if empty.
    """

    def __init__(
        self, model: GraphModule, desired_report_detectors: Iterable[DetectorBase]
    ) -> None:
        if not desired_report_detectors:
            raise ValueError("Should include at least 1 desired report")
        self._model = model
        self._desired_report_detectors = desired_report_detectors
        self._desired_detector_names = {
            detector.get_detector_name() for detector in desired_report_detectors}
        self._detector_name_to_observer_fqns: dict[str, set[str]] = {
            name: set() for name in self._desired_detector_names}
        self._prepared_flag = self._removed_observers = False
        self._generated_reports: dict[str, dict[str, Any]] = {}

    def get_desired_reports_names(self) -> set[str]:
        """Return the names of the detectors."""
        return self._desired_detector_names.copy()

    def get_observers_of_interest(self) -> dict[str, set[str]]:
        """Return the paths of each detector's observers."""
        return self._detector_name_to_observer_fqns.copy()

    def prepare_detailed_calibration(self) -> GraphModule:
        """Insert the detectors' observers and return the model; ValueError on a second call."""
        if self._prepared_flag:
            raise ValueError("Already ran preparing detailed calibration. Run the report "
                             "generation next after calibration.")
        points: dict[str, dict[str, Any]] = {}
        for detector in self._desired_report_detectors:
            wanted = detector.determine_observer_insert_points(self._model)
            points |= wanted
            self._detector_name_to_observer_fqns[detector.get_detector_name()] = set(wanted)
        graph = self._model.graph
        for path, point in points.items():
            node = point[DETECTOR_TARGET_NODE_KEY]
            self._model.add_submodule(path, point[DETECTOR_OBS_TO_INSERT_KEY])
            with graph.inserting_before(node.next if point[DETECTOR_IS_POST_OBS_KEY] else node):
                graph.create_node("call_module", path, point[DETECTOR_OBS_ARGS_KEY])
        self._model.recompile()
        self._prepared_flag = True
        return self._model

    def _get_node_from_fqn(self, node_fqn: str) -> Any:
        """Return the node that calls a module; ValueError if none does."""
        for node in self._model.graph.nodes:
            if node.target == node_fqn:
                return node
        raise ValueError("The node_fqn is was not found within the module.")

    def _check_observers(self) -> None:
        """Raise Exception unless the observers are there."""
        if not self._prepared_flag:
            raise Exception("Cannot generate report without preparing model for calibration")
        if self._removed_observers:
            raise Exception("Cannot generate report on model you already removed observers from")

    def generate_model_report(
        self, remove_inserted_observers: bool
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return the detectors' reports by name: a text, and the measures by module.

        `remove_inserted_observers`: restore the model, which ends the reports. Exception before
        `prepare_detailed_calibration`, and after the observers were removed.
        """
        self._check_observers()
        reports = {detector.get_detector_name(): detector.generate_detector_report(self._model)
                   for detector in self._desired_report_detectors}
        if remove_inserted_observers:
            self._removed_observers = True
            for path in set().union(*self._detector_name_to_observer_fqns.values()):
                self._model.delete_submodule(path)
                self._model.graph.erase_node(self._get_node_from_fqn(path))
            self._model.recompile()
        self._generated_reports = {name: facts for name, (_, facts) in reports.items()}
        return reports

    def _is_same_info_for_same_key(
        self, info_dict_a: dict[str, Any], info_dict_b: dict[str, Any]
    ) -> bool:
        """Whether two dictionaries agree in the keys that both have."""
        return not any(_differ(info_dict_a[key], info_dict_b[key])
                       for key in info_dict_a.keys() & info_dict_b.keys())

    def _reformat_reports_for_visualizer(self) -> OrderedDict[str, Any]:
        """Return all detectors' measures by module; ValueError if two detectors disagree."""
        merged: dict[str, dict[str, Any]] = {}
        for report in self._generated_reports.values():
            for path, facts in report.items():
                known = merged.setdefault(path, {})
                if not self._is_same_info_for_same_key(facts, known):
                    raise ValueError(
                        "You have the same key with different values across detectors. Someone "
                        "incorrectly implemented a detector with conflicting keys to existing "
                        "detectors.")
                merged[path] = {**facts, **known}
        return OrderedDict((path, merged[path]) for path, _ in self._model.named_modules()
                           if path in merged)

    def generate_visualizer(self) -> ModelReportVisualizer:
        """Return tables and plots of the measures; Exception before `generate_model_report`."""
        if not self._generated_reports:
            raise Exception("Unable to generate visualizers without first generating reports")
        return ModelReportVisualizer(self._reformat_reports_for_visualizer())

    def _generate_mapping(
        self, names: tuple[str, ...], generate: Callable[[DetectorQConfigInfo, Any], Any]
    ) -> QConfigMapping:
        """Return the QConfigs of modules, from the suggestions of these names of all detectors."""
        self._check_observers()
        combined: dict[str, DetectorQConfigInfo] = {}
        for detector in self._desired_report_detectors:
            for path, info in detector.get_qconfig_info(self._model).items():
                known = combined.setdefault(path, info)
                for name in names:
                    setattr(known, name, getattr(known, name) or getattr(info, name))
        mapping = QConfigMapping()
        for path, module in self._model.named_modules():
            if path in combined:
                mapping.set_module_name(path, generate(combined[path], module))
        return mapping

    def generate_qconfig_mapping(self) -> QConfigMapping:
        """Return QConfigs that follow the suggestions; Exception without observers."""
        return self._generate_mapping(
            ("is_activation_dynamic", "is_weight_per_channel"),
            lambda info, module: info.generate_quantization_qconfig(module))

    def generate_equalization_mapping(self) -> QConfigMapping:
        """Return equalizations that follow the suggestions; Exception without observers."""
        return self._generate_mapping(
            ("is_equalization_recommended",),
            lambda info, module: info.generate_equalization_qconfig())
