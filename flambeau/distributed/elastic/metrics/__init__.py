"""torch.distributed.elastic.metrics: numbers of launchers, for handlers that programs set."""

from __future__ import annotations

from .api import (
    ConsoleMetricHandler, MetricData, MetricHandler, MetricsConfig, MetricStream,
    NullMetricHandler, configure, get_elapsed_time_ms, getStream, prof, profile, publish_metric,
    put_metric,
)

__all__ = ["ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig",
           "NullMetricHandler", "configure", "getStream", "get_elapsed_time_ms",
           "initialize_metrics", "prof", "profile", "publish_metric", "put_metric"]


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Do nothing: programs call `configure`."""
