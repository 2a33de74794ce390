"""k folds: every sample validates once; classes in proportion; groups together; resuming."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.train import KFold, Trainer, cross_validate, step
from flambeau.utils.data import TensorDataset

torch.manual_seed(0)
X = torch.randn(50, 3)
Y = (X.sum(1) > 0.8).long()


def make():
    net = nn.Linear(3, 2)
    return Trainer(net, torch.optim.SGD(net.parameters(), lr=0.5), "cross_entropy",
                   metrics=["accuracy"], compile=False)


@pytest.mark.parametrize("options", [{}, {"labels": Y}, {"groups": np.arange(50) // 4}], ids=str)
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_sample_validates_once(options, shuffle):
    seen = []
    for training, validation in KFold(5, shuffle=shuffle).split(50, **options):
        assert sorted(training + validation) == list(range(50))
        assert 8 <= len(validation) <= 12
        seen += validation
    assert sorted(seen) == list(range(50))


def test_classes_in_proportion():
    labels = np.array([0] * 30 + [1] * 15 + [2] * 5)
    for _, validation in KFold(5, seed=3).split(50, labels=labels):
        assert np.bincount(labels[validation]).tolist() == [6, 3, 1]


def test_groups_stay_together():
    groups = np.array(list("aaaaaabbbbccccddee"))
    parts = [set(groups[v]) for _, v in KFold(3).split(18, groups=groups)]
    assert sum(map(len, parts)) == 5
    assert parts[0] | parts[1] | parts[2] == set("abcde")


def test_a_seed_means_the_same_parts():
    first, again, other = (list(KFold(3, seed=s).split(20)) for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("data", [(X, Y), TensorDataset(X, Y), (X.numpy(), Y.numpy())])
def test_cross_validation(data, request):
    torch.use_deterministic_algorithms(True)  # or a kernel may take over between the two
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    folds = cross_validate(make, data, k=4, epochs=3, labels=Y, batch_size=10)
    assert len(folds.histories) == len(folds.trainers) == 4
    last = [rows[-1]["valid_accuracy"] for rows in folds.histories]
    assert folds.mean["valid_accuracy"] == pytest.approx(np.mean(last))
    assert folds.deviation["valid_accuracy"] == pytest.approx(np.std(last, ddof=1))
    assert repr(folds).startswith("4 folds: loss ")
    again = cross_validate(make, data, k=4, epochs=3, labels=Y, batch_size=10)
    assert again.histories == folds.histories


def test_a_fold_goes_on_where_it_was(tmp_path):
    whole = cross_validate(make, (X, Y), 3, epochs=2, labels=True, resume=tmp_path / "whole")

    def dies(fold):
        trainer = make()
        if fold == 2:
            trainer.attach(step.end(once=3), lambda: 1 / 0)
        return trainer

    with pytest.raises(ZeroDivisionError):
        cross_validate(dies, (X, Y), 3, epochs=2, labels=True, resume=tmp_path / "dies")
    again = cross_validate(make, (X, Y), 3, epochs=2, labels=True, resume=tmp_path / "dies")
    assert again.histories == whole.histories
    assert again.trainers[0].history == whole.trainers[0].history
    for a, b in zip(again.trainers, whole.trainers, strict=True):
        assert torch.equal(a.net.weight, b.net.weight)


def test_bad_input():
    with pytest.raises(ValueError, match="must be at least 2"):
        KFold(1)
    with pytest.raises(ValueError, match="3 samples make no 5 folds"):
        list(KFold(5).split(3))
    with pytest.raises(ValueError, match="50 samples, but labels of shape"):
        list(KFold(5).split(50, labels=Y[:3]))
    with pytest.raises(ValueError, match="1 groups make no 2 folds"):
        list(KFold(2).split(4, groups=[1, 1, 1, 1]))
    with pytest.raises(ValueError, match="labels or groups"):
        list(KFold(2).split(4, groups=[1, 1, 1, 1], labels=[1, 1, 1, 1]))
    with pytest.raises(TypeError, match="a loader cannot be split"):
        cross_validate(make, [(X, Y)])
    with pytest.raises(TypeError, match="a function that creates a trainer, not a Trainer"):
        cross_validate(make(), (X, Y))


def test_every_fold_has_a_net_of_its_own():
    shared, net = make(), nn.Linear(3, 2)
    with pytest.raises(ValueError, match="make returned the network of another fold"):
        cross_validate(lambda: shared, (X, Y), 2)
    with pytest.raises(ValueError, match="make returned the network of another fold"):
        cross_validate(lambda: Trainer(net, "sgd", "cross_entropy", compile=False), (X, Y), 2)
