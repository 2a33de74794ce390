"""torch.optim.adam.adam and its like: the steps of the classes, on lists."""

from __future__ import annotations

import importlib

import pytest

ADAM = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6}
FORMS = [
    ("adadelta", "Adadelta", ["square_avg", "acc_delta", "step"], [],
     {"lr": 0.5, "rho": 0.9, "eps": 1e-3, "weight_decay": 0.1, "maximize": False}),
    ("adagrad", "Adagrad", ["sum", "step"], [],
     {"lr": 0.5, "weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-6, "maximize": True}),
    ("adam", "Adam", ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"], [],
     {**ADAM, "amsgrad": True, "maximize": False}),
    ("adamw", "AdamW", ["exp_avg", "exp_avg_sq", None, "step"], [],
     {**ADAM, "amsgrad": False, "maximize": True}),
    ("adamax", "Adamax", ["exp_avg", "exp_inf", "step"], [], ADAM),
    ("asgd", "ASGD", ["ax", "mu", "eta", "step"], [],
     {"lambd": 1e-3, "lr": 0.1, "t0": 1.0, "alpha": 0.7, "weight_decay": 0.1}),
    ("nadam", "NAdam", ["exp_avg", "exp_avg_sq", "mu_product", "step"], [],
     {**ADAM, "momentum_decay": 4e-3}),
    ("radam", "RAdam", ["exp_avg", "exp_avg_sq", "step"], [], ADAM),
    ("rmsprop", "RMSprop", ["square_avg", "grad_avg", "momentum_buffer", "step"], [],
     {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.9,
      "centered": True}),
    ("rprop", "Rprop", ["prev", "step_size", "step"], [],
     {"step_size_min": 1e-3, "step_size_max": 5.0, "etaminus": 0.5, "etaplus": 1.2}),
]


def options_of_class(options: dict) -> dict:
    """The class's names of a function's options."""
    result = {k: v for k, v in options.items() if k not in (
        "beta1", "beta2", "step_size_min", "step_size_max", "etaminus", "etaplus")}
    if "beta1" in options:
        result["betas"] = options["beta1"], options["beta2"]
    if "etaplus" in options:
        result["etas"] = options["etaminus"], options["etaplus"]
        result["step_sizes"] = options["step_size_min"], options["step_size_max"]
    return result


@pytest.mark.parametrize(("name", "kind", "state", "rest", "options"), FORMS)
def test_steps_are_those_of_the_class(torch, name, kind, state, rest, options):
    package = torch.__name__
    function = getattr(importlib.import_module(f"{package}.optim.{name}"), name)
    params = [torch.nn.Parameter(torch.tensor([1.0, -2.0])), torch.nn.Parameter(torch.ones(3))]
    optimizer = getattr(torch.optim, kind)(params, foreach=False, **options_of_class(options))

    def give_gradients(step):
        for p in params:
            p.grad = torch.linspace(-1, step, p.numel())

    give_gradients(1)
    optimizer.step()
    copies = [p.detach().clone() for p in params]
    lists = [[optimizer.state[p][key].clone() for p in params] if key else [] for key in state]
    for step in (2, 3):
        give_gradients(step)
        optimizer.step()
        function(copies, [p.grad for p in params], *lists, foreach=False, **options)
    for p, copy in zip(params, copies, strict=True):
        assert torch.allclose(p, copy, 1e-6, 1e-7)
    for key, values in zip(state, lists, strict=True):
        for p, value in zip(params, values, strict=False):
            assert torch.allclose(optimizer.state[p][key], value, 1e-6, 1e-7)


def test_sgd_fills_in_its_buffers(torch):
    sgd = importlib.import_module(f"{torch.__name__}.optim.sgd").sgd
    p, buffers = torch.ones(2), [None]
    for _ in range(2):
        sgd([p], [torch.ones(2)], buffers, weight_decay=0.0, momentum=0.5, lr=0.1, dampening=0.0,
            nesterov=False, maximize=False)
    assert torch.allclose(p, torch.full((2,), 0.75))
    assert buffers[0].tolist() == [1.5, 1.5]
    sgd([p], [torch.ones(2)], buffers, weight_decay=0.0, momentum=0.5, lr=0.1, dampening=0.0,
        nesterov=False, maximize=False, fused=True, found_inf=torch.tensor(1.0),
        grad_scale=torch.tensor(2.0))
    assert buffers[0].tolist() == [1.5, 1.5]  # the step was skipped
