"""Averages of weights: AveragedModel with its rules, SWALR and update_bn."""

import math

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.optim import swa_utils


def model_with(value):
    model = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        model.weight.fill_(value)
    return model


def averages(averaged, values):
    results = []
    model = model_with(0.0)
    for value in values:
        with torch.no_grad():
            model.weight.fill_(value)
        averaged.update_parameters(model)
        results.append(averaged.module.weight.item())
    return results


@pytest.mark.parametrize("rule", [
    {}, {"avg_fn": swa_utils.get_swa_avg_fn()}, {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
])
def test_equal_weights(rule):
    averaged = swa_utils.AveragedModel(model_with(9.0), **rule)
    assert averages(averaged, [1, 2, 6]) == pytest.approx([1, 1.5, 3])
    assert averaged.n_averaged.item() == 3
    assert averaged(torch.ones(1, 1, dtype=torch.float64)).item() == pytest.approx(3)


@pytest.mark.parametrize("kind", ["avg_fn", "multi_avg_fn"])
def test_exponential_moving_average(kind):
    make = getattr(swa_utils, f"get_ema_{kind}")
    averaged = swa_utils.AveragedModel(model_with(9.0), **{kind: make(0.75)})
    assert averages(averaged, [4, 8, 1]) == pytest.approx([4, 5, 4])
    with pytest.raises(ValueError, match=r"Invalid decay value 1\.5"):
        make(1.5)


def test_one_rule_only():
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(
            model_with(0.0),
            avg_fn=swa_utils.get_swa_avg_fn(),
            multi_avg_fn=swa_utils.get_swa_multi_avg_fn(),
        )


@pytest.mark.parametrize("use_buffers", [False, True])
def test_buffers(use_buffers):
    model = nn.BatchNorm1d(1)
    averaged = swa_utils.AveragedModel(model, use_buffers=use_buffers)
    for value in (1.0, 3.0):
        model.running_mean.fill_(value)
        averaged.update_parameters(model)
    assert averaged.module.running_mean.item() == (2 if use_buffers else 3)
    assert "n_averaged" in averaged.state_dict()
    assert "module.weight" in averaged.state_dict()


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_swalr(strategy):
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    scheduler = swa_utils.SWALR(optimizer, 0.2, anneal_epochs=4, anneal_strategy=strategy)
    for epoch in range(1, 8):
        optimizer.step()
        scheduler.step()
        t = min(1, epoch / 4)
        share = (1 - math.cos(math.pi * t)) / 2 if strategy == "cos" else t
        assert scheduler.get_last_lr() == pytest.approx([1 - 0.8 * share])


def test_swalr_arguments():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear'"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="x")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0"):
        swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(ValueError, match="swa_lr must have the same length"):
        swa_utils.SWALR(optimizer, [0.1, 0.2])


def test_update_bn():
    model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3)).eval()
    first, second = torch.zeros(4, 2), torch.full((4, 2), 2.0)
    swa_utils.update_bn([(first, "label"), second], model)
    assert model[0].running_mean.tolist() == [1, 1]
    assert model[0].momentum == 0.3
    assert not model.training
    swa_utils.update_bn([], nn.Linear(1, 1))
