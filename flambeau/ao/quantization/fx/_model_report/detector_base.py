"""DetectorBase: a question about a model's layers, answered by observers and by a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .....fx import GraphModule, Node
from ...observer import (
    default_dynamic_quant_observer, default_observer, default_per_channel_weight_observer,
    default_weight_observer,
)
from ...qconfig import QConfig
from ...quantize import check_qconfig
from ..equalization import EqualizationQConfig, default_equalization_qconfig
from .model_report_observer import ModelReportObserver

__all__ = ["DETECTOR_IS_POST_OBS_KEY", "DETECTOR_OBS_ARGS_KEY", "DETECTOR_OBS_TO_INSERT_KEY",
           "DETECTOR_TARGET_NODE_KEY", "DetectorBase", "DetectorQConfigInfo"]

DETECTOR_TARGET_NODE_KEY = "target_node"
DETECTOR_OBS_TO_INSERT_KEY = "observer_to_insert"
DETECTOR_IS_POST_OBS_KEY = "is_post_observer"
DETECTOR_OBS_ARGS_KEY = "observer_args"
PRE_OBSERVER, POST_OBSERVER = "model_report_pre_observer", "model_report_post_observer"


class DetectorQConfigInfo:
    """What detectors suggest for one module."""

    def __init__(self, module_fqn: str) -> None:
        self.module_fqn = module_fqn
        self.is_activation_dynamic: Any = False
        self.is_weight_per_channel: Any = False
        self.is_equalization_recommended: Any = False

    def generate_quantization_qconfig(self, module: Any) -> QConfig:
        """Return the QConfig that follows most suggestions and is valid for the module."""
        dynamic, per_channel = self.is_activation_dynamic, self.is_weight_per_channel
        for is_dynamic, by_channel in ((dynamic, per_channel), (dynamic, False),
                                       (False, per_channel)):
            qconfig = QConfig(
                default_dynamic_quant_observer if is_dynamic else default_observer,
                default_per_channel_weight_observer if by_channel else default_weight_observer)
            try:
                check_qconfig(module, qconfig)
            except AssertionError:
                continue
            return qconfig
        return QConfig(default_observer, default_weight_observer)

    def generate_equalization_qconfig(self) -> EqualizationQConfig:
        """Return the default equalization."""
        return default_equalization_qconfig


class DetectorBase(ABC):
    """Base class of detectors.

    A detector says which observers it needs, and where. From what they recorded it writes a
    report, and suggests QConfigs.
    """

    def __init__(self) -> None:
        self.detector_config_info: Any = None

    @abstractmethod
    def get_detector_name(self) -> str:
        """Return the detector's name."""

    @abstractmethod
    def determine_observer_insert_points(self, model: Any) -> dict[str, dict[str, Any]]:
        """Return the observers to insert, by path.

        Each has "target_node", the node to observe; "observer_to_insert"; "is_post_observer",
        whether it follows the node; and "observer_args", what it takes.
        """

    @abstractmethod
    def get_qconfig_info(self, model: Any) -> dict[str, DetectorQConfigInfo]:
        """Return the suggestions for modules, by path."""

    @abstractmethod
    def generate_detector_report(self, model: Any) -> tuple[str, dict[str, Any]]:
        """Return a text, and the facts it rests on by the modules' paths."""

    def _get_targeting_node(self, prepared_fx_model: GraphModule, target_fqn: str) -> Node:
        """Return the node that calls a module, or the fused module that holds it.

        ValueError if no node does.
        """
        path = target_fqn
        while path:
            for node in prepared_fx_model.graph.nodes:
                if node.target == path:
                    return node
            path = path.rpartition(".")[0]
        raise ValueError("passed in target_fqn not found in graph's targets.")

    def _plan_observer(
        self, model: GraphModule, path: str, is_post: bool, **settings: Any
    ) -> dict[str, dict[str, Any]]:
        """Plan an observer of a module's inputs, or of its output."""
        node = self._get_targeting_node(model, path)
        return {f"{path}.{POST_OBSERVER if is_post else PRE_OBSERVER}": {
            DETECTOR_TARGET_NODE_KEY: node,
            DETECTOR_OBS_TO_INSERT_KEY: ModelReportObserver(**settings),
            DETECTOR_IS_POST_OBS_KEY: is_post,
            DETECTOR_OBS_ARGS_KEY: (node,) if is_post else node.args,
        }}


def suggest(path: str, **suggestions: Any) -> DetectorQConfigInfo:
    """Return suggestions for one module."""
    info = DetectorQConfigInfo(path)
    for name, value in suggestions.items():
        setattr(info, name, value)
    return info
