"""Metrics against oracles written from their definitions, and numbers that scikit-learn gave."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.train.metrics import (
    AUROC, F1, MAE, MSE, R2, Accuracy, ConfusionMatrix, Perplexity, Precision, Recall, TopK,
)


def feed(metric, output, target, parts=3):
    """The value over a few batches of the data."""
    for part in np.array_split(np.arange(len(target)), parts):
        metric.update(torch.tensor(output[part]), torch.tensor(target[part]))
    return metric.compute()


@pytest.fixture
def scores():
    random = np.random.default_rng(0)
    return random.normal(size=(90, 5)).astype(np.float32)


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(0, 4, 90)  # class 4 is predicted, never wanted


def by_hand(predicted, wanted, label):
    """(precision, recall, f1) of a class, by counting one sample after the other."""
    hits = sum(p == w == label for p, w in zip(predicted, wanted, strict=True))
    predictions, actual = (predicted == label).sum(), (wanted == label).sum()
    precision = hits / predictions if predictions else 0.0
    recall = hits / actual if actual else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return precision, recall, f1


def test_accuracy(scores, labels):
    right = sum(row.argmax() == label for row, label in zip(scores, labels, strict=True))
    assert feed(Accuracy(), scores, labels) == right / 90
    assert feed(Accuracy(), scores.argmax(1), labels) == right / 90  # labels already
    one_hot = np.eye(5, dtype=np.float32)[labels]
    assert feed(Accuracy("multiclass"), scores, one_hot) == right / 90


def test_accuracy_binary():
    logits = np.array([-1.0, 2.0, 0.5, -0.1], np.float32)
    wanted = np.array([0, 1, 0, 0])
    assert feed(Accuracy(), logits, wanted) == 0.75
    assert feed(Accuracy(), logits[:, None], wanted) == 0.75
    assert feed(Accuracy(), logits, wanted.astype(np.float32)[:, None]) == 0.75
    assert feed(Accuracy(threshold=0.6), logits, wanted) == 1.0


def test_accuracy_of_probabilities_warns():
    with pytest.warns(UserWarning, match=r"threshold=0\.5"):
        feed(Accuracy(), np.array([0.1, 0.9], np.float32), np.array([0, 1]))


def test_accuracy_multilabel():
    logits = np.array([[1.0, -1.0], [1.0, 1.0]], np.float32)
    wanted = np.array([[1, 0], [0, 1]])
    assert feed(Accuracy("multilabel"), logits, wanted) == 0.75
    assert feed(Accuracy("multilabel", exact=True), logits, wanted) == 0.5
    with pytest.raises(ValueError, match="task='multilabel'"):
        feed(Accuracy(), logits, wanted)


def test_accuracy_of_images_and_sequences():
    random = np.random.default_rng(2)
    maps, wanted = random.normal(size=(4, 3, 5, 5)), random.integers(0, 3, (4, 5, 5))
    wanted[0, 0] = 255
    mask = wanted != 255
    right = (maps.argmax(1) == wanted)[mask].mean()
    assert feed(Accuracy(ignore_index=255), maps, wanted) == pytest.approx(right)
    last = np.moveaxis(maps, 1, -1)  # (n, h, w, classes), as sequence models have it
    assert feed(Accuracy(ignore_index=255), last, wanted) == pytest.approx(right)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k(scores, labels, k):
    order = np.argsort(-scores, 1, kind="stable")
    assert feed(TopK(k), scores, labels) == pytest.approx(
        np.mean([w in row[:k] for row, w in zip(order, labels, strict=True)])
    )


def test_top_k_ties_and_nan():
    flat = np.zeros((1, 4), np.float32)
    assert [feed(TopK(2), flat, np.array([i]), 1) for i in range(4)] == [1, 1, 0, 0]
    assert feed(TopK(2), np.full((1, 4), np.nan, np.float32), np.array([0]), 1) == 0


def test_top_k_of_fewer_classes(scores, labels):
    with pytest.raises(ValueError, match="top6 of 5 classes is always 1"):
        feed(TopK(6), scores, labels)


@pytest.mark.parametrize("metric", [Accuracy, Precision, F1])
def test_real_numbers_are_no_classes(metric):
    scores, wanted = np.array([0.3, -0.2, 0.1]), np.array([1.0, 0.37, 0.0])
    with pytest.raises(ValueError, match="the targets are 0.37 .* classes are 0 or 1.*'mae'"):
        feed(metric(), scores, wanted)
    half = np.where(wanted == 1, 1.0, -1.0)
    assert feed(Accuracy(ignore_index=-1), scores, half, 1) == 1


def test_precision_recall_f1(scores, labels):
    predicted = scores.argmax(1)
    for index, kind in enumerate((Precision, Recall, F1)):
        each = np.array([by_hand(predicted, labels, c)[index] for c in range(5)])
        count = np.bincount(labels, minlength=5)
        assert feed(kind("none"), scores, labels) == pytest.approx(each)
        assert feed(kind("macro"), scores, labels) == pytest.approx(each.mean())
        assert feed(kind("weighted"), scores, labels) == pytest.approx((each * count).sum() / 90)
        assert feed(kind("micro"), scores, labels) == pytest.approx((predicted == labels).mean())


def test_macro_leaves_out_what_never_occurs():
    # scikit-learn 1.9: f1_score([0, 0, 2], [0, 2, 2], average="macro") = 0.666...
    assert feed(F1(), np.array([0, 2, 2]), np.array([0, 0, 2]), 1) == pytest.approx(2 / 3)


def test_binary_is_the_positive_class():
    logits = np.array([3.0, -1.0, 2.0, 1.0], np.float32)
    wanted = np.array([1, 1, 0, 1])
    assert feed(Precision(), logits, wanted) == pytest.approx(2 / 3)
    assert feed(Recall(), logits, wanted) == pytest.approx(2 / 3)
    assert feed(F1(beta=2.0), logits, wanted) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="needs two classes"):
        feed(F1("binary"), np.array([0, 1, 2]), np.array([0, 1, 2]))


def test_confusion_matrix(scores, labels):
    expected = np.zeros((5, 5), int)
    for p, w in zip(scores.argmax(1), labels, strict=True):
        expected[w, p] += 1
    assert (feed(ConfusionMatrix(), scores, labels) == expected).all()
    rows = feed(ConfusionMatrix(normalize="true"), scores, labels)
    assert rows.sum(1) == pytest.approx([1, 1, 1, 1, 0])  # nothing of class 4 to share out
    with pytest.raises(ValueError, match="a label is -1"):
        ConfusionMatrix().update(torch.tensor([0]), torch.tensor([-1]))


def pairs(scores, positive):
    """The area by its definition: over all pairs, won 1, drawn 1/2."""
    won = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, b in itertools.product(scores[positive], scores[~positive])
    ]
    return sum(won) / len(won)


def test_auroc_with_ties():
    random = np.random.default_rng(3)
    scores = random.normal(size=70).round(1)
    wanted = random.integers(0, 2, 70)
    assert feed(AUROC(), scores, wanted) == pytest.approx(pairs(scores, wanted == 1))


def test_auroc_of_classes(scores):
    wanted = np.arange(90) % 5
    powers = np.exp(scores.astype(float))
    shares = powers / powers.sum(1, keepdims=True)
    each = [pairs(shares[:, c], wanted == c) for c in range(5)]
    assert feed(AUROC("none"), scores, wanted) == pytest.approx(each)
    assert feed(AUROC(), shares, wanted) == pytest.approx(np.mean(each))  # probabilities as is
    two = np.stack([-scores[:, 0], scores[:, 0]], 1)
    assert feed(AUROC(), two, wanted % 2) == pytest.approx(pairs(scores[:, 0], wanted % 2 == 1))


def test_auroc_of_one_class_warns():
    with pytest.warns(UserWarning, match="area is undefined"):
        assert math.isnan(feed(AUROC(), np.array([0.1, 0.2]), np.array([1, 1])))


def test_errors_of_regression():
    random = np.random.default_rng(4)
    a, b = random.normal(size=(40, 2)), 1e6 + random.normal(size=(40, 2))
    assert feed(MSE(), a, b) == pytest.approx(np.mean((a - b) ** 2))
    assert feed(MSE(squared=False), a, b) == pytest.approx(np.sqrt(np.mean((a - b) ** 2)))
    assert feed(MAE(), a, b) == pytest.approx(np.mean(np.abs(a - b)))
    near = b + 0.1 * a
    each = 1 - ((near - b) ** 2).sum(0) / ((b - b.mean(0)) ** 2).sum(0)
    assert feed(R2(), near, b) == pytest.approx(each.mean(), rel=1e-9)
    assert feed(R2(average="none"), near, b) == pytest.approx(each)


def test_regression_does_not_broadcast():
    assert feed(MSE(), np.ones((3, 1)), np.ones(3)) == 0.0
    with pytest.raises(ValueError, match=r"\(3, 2\)"):
        feed(MSE(), np.ones((3, 2)), np.ones(3), 1)


def test_perplexity():
    random = np.random.default_rng(5)
    logits, wanted = random.normal(size=(6, 4, 9)), random.integers(0, 9, (6, 4))
    wanted[2, 1] = -100
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    losses = [-math.log(shares[i, j, wanted[i, j]])
              for i in range(6) for j in range(4) if wanted[i, j] >= 0]
    expected = math.exp(sum(losses) / len(losses))
    assert feed(Perplexity(), logits, wanted) == pytest.approx(expected)
    assert feed(Perplexity(), np.moveaxis(logits, -1, 1), wanted) == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, scores, labels):
    output, target = torch.tensor(scores).to(dtype), torch.tensor(labels)
    for kind in (Accuracy, TopK, F1, ConfusionMatrix, AUROC, Perplexity):
        half, full = kind(), kind()
        half.update(output, target % 5 if kind is AUROC else target)
        full.update(output.float(), target)
        if kind is not AUROC:
            assert half.compute() == pytest.approx(full.compute(), rel=1e-5)


@pytest.mark.parametrize("kind", [MSE, MAE, R2, Perplexity, AUROC])
@pytest.mark.filterwarnings("ignore:.*no area")
def test_a_run_that_diverges_is_not_a_warning_of_numpy(kind):
    """pytest turns RuntimeWarnings into errors."""
    metric = kind()
    bad = torch.full((4,), float("inf"))
    if kind is Perplexity:
        metric.update(bad[:, None].expand(4, 3), torch.tensor([0, 1, 2, 0]))
    else:
        target = torch.tensor([0, 1, 0, 1]) if kind is AUROC else bad
        metric.update(bad * torch.tensor([1.0, -1.0, float("nan"), 1.0]), target)
    assert not np.isfinite(metric.compute())
