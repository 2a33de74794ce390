"""Loggers in graphs, and what they recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....nn.module import Module
from ....tensor import Tensor
from .error_measures import compute_sqnr
from .ns_types import NSResultsType

__all__ = ["OutputComparisonLogger", "OutputLogger", "extract_one_model", "loggers_set_enabled",
           "loggers_set_save_activations"]


class OutputLogger(Module):
    """Records the values that pass through it.

    Args:
        ref_node_name: The node to which the values belong: their producer, or their consumer if
            the logger records inputs.
        prev_node_name: The node that computes the values.
        model_name: The model.
        ref_name: The layer, in whichever model.
        prev_node_target_type: What the producer calls.
        ref_node_target_type: What the node to which the values belong calls.
        results_type: "node_output" or "node_input".
        index_within_arg: Place of the value in a list that the consumer takes.
        index_of_arg: Place of the value, or list, among the consumer's arguments.
        fqn: Path of the module.
        qconfig_str: The QConfig as text.
    """

    _is_impure = True  # no dead code, though nothing uses its result
    stats: list[Tensor]
    stats_rnn: list[tuple[Tensor, tuple[Tensor, Tensor]]]

    def __init__(
        self, ref_node_name: str, prev_node_name: str, model_name: str, ref_name: str,
        prev_node_target_type: str, ref_node_target_type: str, results_type: str,
        index_within_arg: int, index_of_arg: int, fqn: str | None, qconfig_str: str | None = "",
    ) -> None:
        super().__init__()
        self.stats, self.stats_rnn = [], []
        self.ref_node_name, self.prev_node_name = ref_node_name, prev_node_name
        self.model_name, self.ref_name = model_name, ref_name
        self.prev_node_target_type = prev_node_target_type
        self.ref_node_target_type = ref_node_target_type
        self.results_type = results_type
        self.index_within_arg, self.index_of_arg = index_within_arg, index_of_arg
        self.fqn, self.qconfig_str = fqn, qconfig_str
        self.enabled = self.save_activations = True

    def forward(self, x: Any) -> Any:
        """Record a tensor, or an LSTM's (output, (h, c)), and return it."""
        if not self.enabled or not self.save_activations:
            return x
        if isinstance(x, Tensor):
            self.stats.append(x.detach())
        elif isinstance(x, tuple) and len(x) == 2 and len(x[1]) == 2:
            y, (h, c) = x
            self.stats_rnn.append((y.detach(), (h.detach(), c.detach())))
        return x

    def __repr__(self) -> str:
        attributes = {name: value for name, value in self.__dict__.items()
                      if name != "training" and not name.startswith("_")}
        return f"{type(self).__name__}({attributes})"


class OutputComparisonLogger(OutputLogger):
    """Compares the values that pass through it with reference values, by their SQNR."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.comparison_fn, self.comparison_fn_name = compute_sqnr, "sqnr"
        self.comparisons: list[Any] = []

    def forward(self, x: Any, x_ref: Any) -> Any:  # type: ignore[override]
        """Record a tensor and its distance from the reference, and return it."""
        if not self.enabled:
            return x
        assert isinstance(x, Tensor), "non-tensor inputs not yet supported"
        if self.save_activations:
            self.stats.append(x.detach())
        self.comparisons.append(self.comparison_fn(x, x_ref))
        return x


_COPIED = ("ref_node_name", "ref_node_target_type", "prev_node_name", "prev_node_target_type",
           "index_within_arg", "index_of_arg", "fqn", "qconfig_str")


def _is_logger(module: Any, logger_cls: Any) -> bool:
    """Whether a module is a logger, perhaps a scripted one."""
    return isinstance(module, logger_cls) \
        or getattr(module, "original_name", None) == "OutputLogger"


def extract_one_model(
    model: Any, results: NSResultsType, logger_cls: Callable[..., Any]
) -> None:
    """Add what a model's loggers recorded to results."""
    for module in model.modules():
        if not _is_logger(module, logger_cls):
            continue
        by_type = results.setdefault(module.ref_name, {})
        assert module.model_name not in by_type, (
            f"{module.model_name} is already present in results")
        layers = by_type.setdefault(module.results_type, {}).setdefault(module.model_name, [])
        layers.append({
            "type": module.results_type, "values": module.stats_rnn or module.stats,
            **{name: getattr(module, name) for name in _COPIED},
            "comparisons": getattr(module, "comparisons", []),
            "comparison_fn_name": getattr(module, "comparison_fn_name", ""),
        })
        layers.sort(key=lambda layer: f"{layer['index_of_arg']}:{layer['index_within_arg']}")


def loggers_set_enabled(model: Any, enabled: bool) -> None:
    """Set whether a model's loggers record anything."""
    for module in model.modules():
        if isinstance(module, OutputLogger):
            module.enabled = enabled


def loggers_set_save_activations(model: Any, save_activations: bool) -> None:
    """Set whether a model's loggers keep values; comparisons are recorded anyway."""
    for module in model.modules():
        if isinstance(module, OutputLogger):
            module.save_activations = save_activations
