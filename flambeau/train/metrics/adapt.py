"""Whatever a user passes as metrics, as a dict of names and metrics.

A name ("accuracy"), a metric, a class of metrics, a function of (output, target), an object of
torchmetrics, a function of scikit-learn; alone, in a list, in a dict, in pairs (name, metric).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .accuracy import Accuracy, TopK
from .agreement import CohenKappa, MatthewsCorrelation
from .auroc import AUROC
from .average import Mean, name_of_function
from .calibration import Brier, CalibrationError, LogLoss
from .confusion import ConfusionMatrix
from .correlation import Pearson, Spearman
from .foreign import Foreign, has, is_scikit, wrap_scikit
from .image_quality import PSNR, SSIM
from .metric import MetricProtocol
from .perplexity import Perplexity
from .precision_recall import F1, Precision, Recall
from .ranking import NDCG, AveragePrecision
from .regression import MAE, MSE, R2
from .segmentation import MeanIoU
from .text_overlap import BLEU, ROUGE

# Names of metrics. Losses of nn.functional use their own names.
NAMED: dict[str, Callable[..., MetricProtocol]] = {
    "accuracy": Accuracy,
    "acc": Accuracy,
    "binary_accuracy": lambda name: Accuracy("binary", name=name),
    "multilabel_accuracy": lambda name: Accuracy("multilabel", name=name),
    "top3": lambda name: TopK(3, name=name),
    "top5": lambda name: TopK(5, name=name),
    "precision": Precision,
    "recall": Recall,
    "f1": F1,
    "confusion_matrix": ConfusionMatrix,
    "auroc": AUROC,
    "mse": MSE,
    "rmse": lambda name: MSE(squared=False, name=name),
    "mae": MAE,
    "r2": R2,
    "perplexity": Perplexity,
    "average_precision": AveragePrecision,
    "ndcg": NDCG,
    "brier": Brier,
    "calibration_error": CalibrationError,
    "log_loss": LogLoss,
    "pearson": Pearson,
    "spearman": Spearman,
    "kappa": CohenKappa,
    "mcc": MatthewsCorrelation,
    "mean_iou": MeanIoU,
    "psnr": PSNR,
    "ssim": SSIM,
    "bleu": BLEU,
    "rouge1": lambda name: ROUGE("rouge1", name=name),
    "rouge2": lambda name: ROUGE("rouge2", name=name),
    "rougeL": lambda name: ROUGE("rougeL", name=name),
}
_METHODS = ("update", "compute", "reset", "state_dict", "load_state_dict", "merge")


def adapt(metrics: Any) -> dict[str, MetricProtocol]:
    """The metrics by name, in order. Raises ValueError for two of one name or an unknown one.

    >>> sorted(adapt(["accuracy", torch.nn.functional.l1_loss]))
    ['accuracy', 'l1_loss']
    """
    result: dict[str, MetricProtocol] = {}
    for name, metric_like in _iterate_items(metrics):
        metric = _adapt_metric(metric_like, name)
        if metric.name in result:
            raise ValueError(
                f"two metrics are called {metric.name!r}; give them names: "
                f"metrics={{'{metric.name}': ..., '{metric.name}_2': ...}}"
            )
        result[metric.name] = metric
    return result


def _iterate_items(metrics: Any) -> Iterable[tuple[str | None, Any]]:
    if metrics is None:
        return
    if isinstance(metrics, Mapping):
        yield from metrics.items()
    elif _is_pair(metrics):
        yield metrics
    elif isinstance(metrics, (list, tuple)):
        for item in metrics:
            if _is_pair(item):
                yield item
            else:
                yield None, item
    else:
        yield None, metrics


def _is_pair(item: Any) -> bool:
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and not isinstance(item[1], str)
    )


def _adapt_metric(candidate: Any, name: str | None = None) -> MetricProtocol:
    """A metric from its name, class, object or function; `name` overrides its own."""
    if isinstance(candidate, str):
        return _find_by_name(candidate, name or candidate)
    if inspect.isclass(candidate) and has(candidate, "compute"):
        candidate = candidate()
    if all(has(candidate, attribute) for attribute in (*_METHODS, "name")):
        if name is not None:
            candidate.name = name
        return candidate
    if all(has(candidate, method) for method in ("update", "compute", "reset")):
        return Foreign(candidate, name=name)
    if not callable(candidate):
        lacking = [name for name in ("update", "compute", "reset") if not has(candidate, name)]
        if 0 < len(lacking) < 3:
            raise TypeError(f"metric {type(candidate).__name__} has no {' and no '.join(lacking)}")
        raise TypeError(
            f"a metric is a name, an object with update/compute/reset, or a function of "
            f"(output, target), not {type(candidate).__name__}: {candidate!r}"
        )
    if is_scikit(candidate):
        return wrap_scikit(candidate, name=name)
    return Mean(_put_truth_last(candidate), name=name or name_of_function(candidate, "metric"))


def _put_truth_last(function: Any) -> Any:
    """A function of (output, target); one of (y_true, y_pred), as Keras has them, turned round."""
    try:
        order = list(inspect.signature(function).parameters)[:2]
    except (TypeError, ValueError):
        return function
    return (lambda output, target: function(target, output)) \
        if order == ["y_true", "y_pred"] else function


def _find_by_name(word: str, name: str) -> MetricProtocol:
    make = NAMED.get(word)
    if make is not None:
        return make(name=name)
    k = word.removeprefix("top")
    if k != word and k.isdecimal() and int(k) > 0:
        return TopK(int(k), name=name)
    from ...nn import functional

    loss = getattr(functional, word, None)
    if callable(loss) and (word.endswith("_loss") or "cross_entropy" in word):
        return Mean(loss, name=name, higher_is_better=False)
    matches = difflib.get_close_matches(word, [*NAMED, "cross_entropy", "l1_loss"])
    hint = f"did you mean {' or '.join(map(repr, matches))}? " if matches else ""
    raise ValueError(f"no metric is called {word!r}; {hint}There are {', '.join(NAMED)}, and "
                     "the losses of nn.functional")
