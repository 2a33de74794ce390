"""scikit-learn's and torchmetrics' own metrics in a training, where they are installed."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.train import Trainer
from flambeau.train.metrics import F1, Accuracy, ConfusionMatrix, Precision, Recall

torch.manual_seed(0)
X = torch.randn(70, 3)
Y = (X[:, 0] > 0).long() + (X[:, 1] > 1).long()  # three classes


def fitted(metrics):
    torch.manual_seed(1)
    net = nn.Linear(3, 3)
    trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.5), "cross_entropy",
                      metrics=metrics, compile=False)
    trainer.fit((X, Y), (X, Y), epochs=2, batch_size=16)
    return trainer.history[-1], trainer.predict(X)


def test_scikit_learn():
    theirs = pytest.importorskip("sklearn.metrics")
    row, scores = fitted({"kappa": theirs.cohen_kappa_score, "log": theirs.log_loss})
    guesses, shares = scores.argmax(1).numpy(), torch.softmax(scores, 1).numpy()
    assert row["valid_kappa"] == pytest.approx(theirs.cohen_kappa_score(Y.numpy(), guesses))
    assert row["valid_log"] == pytest.approx(theirs.log_loss(Y.numpy(), shares), rel=1e-5)
    for average in ("micro", "macro", "weighted"):
        for ours, reference in ((F1, theirs.f1_score), (Precision, theirs.precision_score),
                                (Recall, theirs.recall_score)):
            expected = reference(Y.numpy(), guesses, average=average, zero_division=0.0)
            metric = ours(average)
            metric.update(scores, Y)
            assert metric.compute() == pytest.approx(expected)


@pytest.mark.parity
def test_torchmetrics():
    theirs = pytest.importorskip("torchmetrics.classification")
    named = {"accuracy": theirs.MulticlassAccuracy(3, average="micro"),
             "f1": theirs.MulticlassF1Score(3, average="macro"),
             "confusion": theirs.MulticlassConfusionMatrix(3)}
    row, scores = fitted(named)
    for name, metric in (("accuracy", Accuracy()), ("f1", F1("macro")),
                         ("confusion", ConfusionMatrix(3))):
        metric.update(scores, Y)
        np.testing.assert_allclose(np.asarray(row[f"valid_{name}"]), metric.compute(), rtol=1e-6)
