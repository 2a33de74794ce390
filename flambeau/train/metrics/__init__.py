"""Metrics: accuracy, precision and recall, areas, errors, averages; and those of others."""

from __future__ import annotations

from .accuracy import Accuracy, TopK
from .adapt import adapt
from .auroc import AUROC
from .average import EpochMetric, Mean, RunningAverage, Select
from .confusion import ConfusionMatrix
from .foreign import Foreign, scikit
from .group import MetricGroup
from .metric import Metric, MetricProtocol, batch_size
from .perplexity import Perplexity
from .precision_recall import F1, Precision, Recall
from .regression import MAE, MSE, R2

__all__ = [
    "AUROC", "F1", "MAE", "MSE", "R2", "Accuracy", "ConfusionMatrix", "EpochMetric", "Foreign",
    "Mean", "Metric", "MetricGroup", "MetricProtocol", "Perplexity", "Precision", "Recall",
    "RunningAverage", "Select", "TopK", "adapt", "batch_size", "scikit",
]  # fmt: skip
