"""Metrics: accuracy, precision and recall, areas, errors, averages; and those of others."""

from __future__ import annotations

from .accuracy import Accuracy, TopK
from .adapt import adapt
from .agreement import CohenKappa, MatthewsCorrelation
from .auroc import AUROC
from .average import EpochMetric, Mean, RunningAverage, Select
from .calibration import Brier, CalibrationError, LogLoss
from .confusion import ConfusionMatrix
from .correlation import Pearson, Spearman
from .foreign import Foreign, wrap_scikit
from .group import MetricGroup
from .image_quality import PSNR, SSIM
from .metric import Metric, MetricProtocol, batch_size
from .perplexity import Perplexity
from .precision_recall import F1, Precision, Recall
from .ranking import NDCG, AveragePrecision
from .regression import MAE, MSE, R2
from .segmentation import MeanIoU
from .text_overlap import BLEU, ROUGE

__all__ = [
    "AUROC", "BLEU", "F1", "MAE", "MSE", "NDCG", "PSNR", "R2", "ROUGE", "SSIM", "Accuracy",
    "AveragePrecision", "Brier", "CalibrationError", "CohenKappa", "ConfusionMatrix",
    "EpochMetric", "Foreign", "LogLoss", "MatthewsCorrelation", "Mean", "MeanIoU", "Metric",
    "MetricGroup", "MetricProtocol", "Pearson", "Perplexity", "Precision", "Recall",
    "RunningAverage", "Select", "Spearman", "TopK", "adapt", "batch_size", "scikit",
]
