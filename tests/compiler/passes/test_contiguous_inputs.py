"""Arguments and parameters with gaps, as slices of longer tensors are, in compiled steps."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from ..step_comparison import runs, same

MATRIX = torch.randn(4, 5)
ROWS = torch.arange(48)[:, None] % 4
READERS = {
    "linear": lambda x: F.linear(x, MATRIX.t()),
    "rows": lambda x: x.reshape(-1, 4) @ MATRIX,
    "flat": lambda x: x.reshape(-1) * 2,
    "softmax": lambda x: x.reshape(-1, 4).softmax(-1),
    "columns": lambda x: x.reshape(-1, 2).sum(0),
    "take": lambda x: x.reshape(-1)[torch.arange(5)],
    "gather": lambda x: x.reshape(-1, 4).gather(1, ROWS),
    "cat": lambda x: torch.cat([x.reshape(-1), torch.zeros(3)]),
    "sort": lambda x: x.reshape(-1).sort()[0],
    "norm": lambda x: F.layer_norm(x.reshape(-1, 4), (4,)),
    "outer": lambda x: x.reshape(-1)[:, None] + x.reshape(-1)[None],
    "both": lambda x: (x.reshape(-1, 4).sum(0), x.sum(1)),
    "turned": lambda x: x.transpose(0, 1).reshape(-1) * 2,
    "written": lambda x: (x.mul_(2).reshape(-1).cumsum(0), x.reshape(-1, 4).amax(0)),
}
SLICES = {
    "last": lambda: torch.randn(6, 9, 4)[:, :-1],
    "turned": lambda: torch.randn(6, 9, 4).transpose(0, 1)[1:],
    "step": lambda: torch.randn(6, 8, 8)[:, :, ::2],
}


@pytest.mark.parametrize("name", READERS)
def test_slices_are_reshaped(name):
    for make in SLICES.values() if name in ("rows", "turned") else (SLICES["last"],):
        step = torch.compile(READERS[name], mode="now", fullgraph=name != "sort")
        for i in range(4):
            torch.manual_seed(i)
            first = make()
            torch.manual_seed(i)
            second = make()
            same(step(first), READERS[name](second), 1e-4)
            same(first, second)
        assert runs(step)


def test_a_language_model_learns_from_slices_of_its_tokens():
    def training():
        torch.manual_seed(0)
        table = nn.Embedding(11, 8, padding_idx=0)
        head = nn.Linear(8, 11)
        optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(head(table(x)).reshape(-1, 11), y.reshape(-1))
            loss.backward()
            optimizer.step()
            return loss

        return step

    step, plain = torch.compile(training(), mode="now", fullgraph=True), training()
    for i in range(5):
        torch.manual_seed(i)
        tokens = torch.randint(11, (6, 9))
        same(step(tokens[:, :-1], tokens[:, 1:]), plain(tokens[:, :-1], tokens[:, 1:]), 1e-4)
    assert runs(step)


def test_parameters_may_have_gaps():
    weight = nn.Parameter(torch.randn(6, 9, 4)[:, :-1])
    optimizer = torch.optim.Adam([weight], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (weight.reshape(-1, 4) @ x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    fast = torch.compile(step, mode="now", fullgraph=True)
    losses = [float(fast(MATRIX)) for _ in range(5)]
    assert runs(fast)
    assert losses == sorted(losses, reverse=True)
