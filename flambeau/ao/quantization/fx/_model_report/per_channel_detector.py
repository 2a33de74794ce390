"""PerChannelDetector: do weights have one scale for each channel?"""

from __future__ import annotations

from typing import Any, ClassVar

from .....nn import modules as nn
from ....nn import qat
from ...qconfig import QConfig
from ...utils import is_per_channel
from .detector_base import DetectorBase, DetectorQConfigInfo, suggest

__all__ = ["PerChannelDetector"]

_LAYERS: set[Any] = {getattr(home, name) for home in (nn, qat)
                     for name in ("Linear", "Conv1d", "Conv2d", "Conv3d")}


class PerChannelDetector(DetectorBase):
    """Finds linear layers and convolutions whose weights have a single scale.

    Args:
        backend: The engine that will run the model; None: `torch.backends.quantized.engine`.
            ValueError for an unknown engine.
    """

    BACKEND_KEY = "backend"
    PER_CHAN_SUPPORTED_KEY = "per_channel_quantization_supported"
    PER_CHAN_USED_KEY = "per_channel_quantization_used"
    DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES: ClassVar[dict[str, set[Any]]] = dict.fromkeys(
        ("fbgemm", "qnnpack", "onednn", "x86"), _LAYERS)

    def __init__(self, backend: str | None = None) -> None:
        super().__init__()
        if backend is None:
            from .....backends import quantized

            backend = quantized.engine
        if backend not in self.DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES:
            raise ValueError(
                f"Not configured to work with {backend}. Try a different default backend")
        self.backend_chosen: Any = backend
        self.supported_modules = self.DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES[backend]

    def get_detector_name(self) -> str:
        """Return the detector's name."""
        return "per_channel_detector"

    def determine_observer_insert_points(self, model: Any) -> dict[str, dict[str, Any]]:
        """Return nothing: the modules' QConfigs say enough."""
        return {}

    def get_qconfig_info(self, model: Any) -> dict[str, DetectorQConfigInfo]:
        """Suggest scales of channels."""
        return {path: suggest(path, is_weight_per_channel=facts[self.PER_CHAN_SUPPORTED_KEY])
                for path, facts in self._find_facts(model).items()}

    def _find_facts(self, model: Any) -> dict[str, dict[str, Any]]:
        facts = {}
        layers = tuple(self.supported_modules)
        for path, module in model.named_modules():
            if not isinstance(module, layers):
                continue
            assert isinstance(module.qconfig, QConfig), "module.qconfig must be a QConfig"
            scheme = getattr(module.qconfig.weight(), "qscheme", None)
            facts[path] = {self.PER_CHAN_SUPPORTED_KEY: True,
                           self.PER_CHAN_USED_KEY: is_per_channel(scheme),
                           self.BACKEND_KEY: self.backend_chosen}
        return facts

    def generate_detector_report(self, model: Any) -> tuple[str, dict[str, Any]]:
        """Return a text that names layers with a single scale, and the facts by path."""
        facts = self._find_facts(model)
        text = f"Further Optimizations for backend {self.backend_chosen}: \n"
        single = [path for path in facts if not facts[path][self.PER_CHAN_USED_KEY]]
        for path in single:
            text += f"Module {path} can be configured to use per_channel quantization.\n"
        text += ("To use per_channel quantization, make sure the qconfig has a per_channel weight "
                 "observer.") if single else "No further per_channel optimizations possible."
        return text, facts
