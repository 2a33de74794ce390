"""Warnings name the line that called the library, however deep in it they arise."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.native.foundation import user_frames

PACKAGE = Path(torch.__file__).parent
x = torch.ones(2, 3)


def _scheduler_before_optimizer():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1)
    optim.lr_scheduler.StepLR(optimizer, 1).step()


def _last_rate():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1)
    optim.lr_scheduler.StepLR(optimizer, 1).get_lr()


def _grad_of_what_is_no_leaf():
    return (nn.Parameter(torch.ones(1)) * 2).grad


def _anomaly():
    with torch.autograd.detect_anomaly():
        pass


def _ambiguous_steps():
    class Steps(nn.Sequential):
        def forward(self, y):
            return F.softmax(y)

    return nn.Sequential(Steps())(x)


WARNERS = {
    "softmax": lambda: F.softmax(x),
    "softmax of a module": lambda: nn.Softmax()(x),
    "log_softmax of a nested module": lambda: nn.Sequential(nn.Sequential(nn.LogSoftmax()))(x),
    "softmax in a module of the user's": _ambiguous_steps,
    "mse_loss": lambda: F.mse_loss(x, torch.ones(3)),
    "nn.MSELoss": lambda: nn.MSELoss()(x, torch.ones(2, 1)),
    "l1_loss": lambda: F.l1_loss(x, torch.ones(3)),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(x, torch.ones(3)),
    "huber_loss": lambda: F.huber_loss(x, torch.ones(3)),
    "kl_div": lambda: F.kl_div(x.log_softmax(1), x.softmax(1)),
    "size_average": lambda: nn.L1Loss(size_average=False),
    "size_average of a function": lambda: F.mse_loss(x, x, size_average=True),
    "torch.tensor": lambda: torch.tensor(x),
    "upsample": lambda: F.upsample(torch.ones(1, 1, 2, 2), scale_factor=2),
    "grid_sample": lambda: F.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 2, 2, 2)),
    "affine_grid": lambda: F.affine_grid(torch.ones(1, 2, 3), [1, 1, 2, 2]),
    "where": lambda: torch.where(torch.ones(2, 3).byte(), x, x),
    "complex to real": lambda: torch.ones(2, dtype=torch.complex64).float(),
    "uint8 mask": lambda: x[torch.ones(2, 3).byte()],
    "dropout2d": lambda: F.dropout2d(torch.ones(2, 3, 4)),
    "meshgrid": lambda: torch.meshgrid(torch.ones(2), torch.ones(2)),
    "out": lambda: torch.add(x, x, out=torch.empty(5)),
    "nn.RNN with dropout": lambda: nn.LSTM(2, 3, dropout=0.5),
    "zero elements": lambda: nn.Linear(0, 3),
    "scheduler.step": _scheduler_before_optimizer,
    "get_lr": _last_rate,
    "grad": _grad_of_what_is_no_leaf,
    "anomaly": _anomaly,
    "clip_grad_norm": lambda: nn.utils.clip_grad_norm([nn.Parameter(x)], 1.0),
    "weight_norm": lambda: nn.utils.weight_norm(nn.Linear(2, 2)),
    "init.normal": lambda: nn.init.normal(nn.Parameter(torch.ones(2))),
    "checkpoint": lambda: torch.utils.checkpoint.checkpoint(lambda y: y, x, use_reentrant=True),
    "duplicate parameters": lambda: optim.SGD([p := nn.Parameter(x), p], lr=1),
    "autocast": lambda: torch.cuda.amp.autocast(),
    "GradScaler": lambda: torch.cuda.amp.GradScaler(),
    "pin_memory": lambda: iter(torch.utils.data.DataLoader([1, 2], pin_memory=True)),
    "stft": lambda: torch.stft(torch.ones(64), 16, return_complex=True),
    "addmm": lambda: torch.addmm(1, x, 1, x, torch.ones(3, 3)),
    "resize": lambda: x.resize(3, 2),
}


@pytest.mark.parametrize("name", WARNERS)
def test_the_line_of_the_user_is_named(name):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        WARNERS[name]()
    assert told, "it does not warn any more: take it off the list"
    own = [w for w in told if w.filename.startswith(str(PACKAGE))]
    assert not own, f"{own[0].filename}:{own[0].lineno}"
    assert all(w.filename == __file__ for w in told)


def test_the_standard_library_is_passed_over():
    import functools

    with pytest.warns(UserWarning, match="Implicit dimension") as told:
        functools.reduce(lambda a, _: F.softmax(a), [x, 1])
    assert told[0].filename == __file__


def test_a_warning_is_told_once_a_line():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            F.softmax(x)
        F.softmax(x)
    assert len(told) == 2


def test_nothing_counts_stack_levels():
    """`warn` finds the frame; a number that somebody counted is wrong one refactoring later."""
    counted = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\bstacklevel=\d", line)
    ]
    assert counted == []


def test_user_frame_is_this_one():
    frame = user_frames.find_user_frame()
    assert frame is not None
    assert frame.f_code.co_name == "test_user_frame_is_this_one"
