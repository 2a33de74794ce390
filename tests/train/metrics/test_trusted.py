"""The metrics beside the libraries that people trust for them, on random data in batches."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.train import metrics

pytestmark = pytest.mark.parity


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def value(metric, output, target, batches=3):
    for a, b in zip(np.array_split(output, batches), np.array_split(target, batches), strict=True):
        metric.update(torch.tensor(a), torch.tensor(b))
    return metric.compute()


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_correlations_are_scipys(rng) -> None:
    from scipy import stats

    a = rng.normal(size=60).round(1)
    b = a + rng.normal(size=60).round(1)
    assert value(metrics.Pearson(), a, b) == pytest.approx(stats.pearsonr(a, b)[0])
    assert value(metrics.Spearman(), a, b) == pytest.approx(stats.spearmanr(a, b)[0])


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_is_scikit_learns(rng, weights) -> None:
    sk = pytest.importorskip("sklearn.metrics")
    a, b = rng.integers(4, size=80), rng.integers(4, size=80)
    expected = sk.cohen_kappa_score(b, a, weights=weights)
    assert value(metrics.CohenKappa(weights), a, b) == pytest.approx(expected)


@pytest.mark.parametrize("classes", [2, 5])
def test_matthews_and_iou_are_scikit_learns(rng, classes) -> None:
    sk = pytest.importorskip("sklearn.metrics")
    a, b = rng.integers(classes, size=80), rng.integers(classes, size=80)
    matthews = value(metrics.MatthewsCorrelation(), a, b)
    assert matthews == pytest.approx(sk.matthews_corrcoef(b, a))
    overlap = value(metrics.MeanIoU(), a, b)
    assert overlap == pytest.approx(sk.jaccard_score(b, a, average="macro"))


@pytest.mark.parametrize("logits", [False, True])
def test_probabilistic_scores_are_scikit_learns(rng, logits) -> None:
    sk = pytest.importorskip("sklearn.metrics")
    scores = rng.normal(size=(90, 4))
    labels = rng.integers(4, size=90)
    inputs = scores if logits else softmax(scores)
    loss = value(metrics.LogLoss(), inputs, labels)
    assert loss == pytest.approx(sk.log_loss(labels, softmax(scores)))
    p, y = rng.random(50), rng.integers(2, size=50)
    assert value(metrics.Brier(), p, y) == pytest.approx(sk.brier_score_loss(y, p))


def test_rankings_are_scikit_learns(rng) -> None:
    sk = pytest.importorskip("sklearn.metrics")
    scores, positive = rng.normal(size=70).round(1), rng.integers(2, size=70)
    precision = value(metrics.AveragePrecision(), scores, positive)
    assert precision == pytest.approx(sk.average_precision_score(positive, scores))
    multilabel_scores, labels = rng.normal(size=(70, 3)).round(1), rng.integers(2, size=(70, 3))
    precision = value(metrics.AveragePrecision(), multilabel_scores, labels)
    assert precision == pytest.approx(sk.average_precision_score(labels, multilabel_scores))
    rows, gains = rng.normal(size=(9, 12)).round(1), rng.integers(4, size=(9, 12)).astype(float)
    for k in (None, 5):
        assert value(metrics.NDCG(k), rows, gains) == pytest.approx(sk.ndcg_score(gains, rows, k=k))


def test_image_quality_is_scikit_images(rng) -> None:
    quality = pytest.importorskip("skimage.metrics")
    a = rng.random((4, 3, 16, 20))
    b = (a + rng.normal(size=a.shape) * 0.1).clip(0, 1)
    psnr = np.mean([quality.peak_signal_noise_ratio(y, x, data_range=1.0)
                    for x, y in zip(a, b, strict=True)])
    assert value(metrics.PSNR(), a, b, 2) == pytest.approx(psnr)
    ssim = np.mean([quality.structural_similarity(y, x, data_range=1.0, channel_axis=0)
                    for x, y in zip(a, b, strict=True)])
    assert value(metrics.SSIM(), a, b, 2) == pytest.approx(ssim)


CANDIDATES = ["the quick brown fox jumps over the dog", "a small cat sat on the old mat today"]
REFERENCES = [
    ["the quick brown fox jumped over the lazy dog", "the fast brown fox jumps over the dog"],
    ["a small cat sat on a mat today", "the cat sat on the old mat"],
]


def test_bleu_is_nltks() -> None:
    nltk = pytest.importorskip("nltk.translate.bleu_score")
    bleu = metrics.BLEU()
    for candidate, references in zip(CANDIDATES, REFERENCES, strict=True):
        bleu.update([candidate], [references])
    expected = nltk.corpus_bleu([[r.split() for r in several] for several in REFERENCES],
                                [c.split() for c in CANDIDATES])
    assert bleu.compute() == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rougeL"])
def test_rouge_is_googles(kind) -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer([kind])
    rouge = metrics.ROUGE(kind)
    pairs = [(c, r[0]) for c, r in zip(CANDIDATES, REFERENCES, strict=True)]
    for candidate, reference in pairs:
        rouge.update([candidate], [reference])
    expected = np.mean([scorer.score(r, c)[kind].fmeasure for c, r in pairs])
    assert rouge.compute() == pytest.approx(expected)


def test_calibration_error_by_hand() -> None:
    # Ten samples of confidence 0.95, nine right; ten of 0.65, five right.
    p = np.r_[np.full(10, 0.95), np.full(10, 0.65)]
    y = np.r_[np.ones(9), 0, np.ones(5), np.zeros(5)].astype(int)
    assert value(metrics.CalibrationError(10), p, y) == pytest.approx((0.05 + 0.15) / 2)
