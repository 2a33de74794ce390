"""The step counters of a compiled optimizer: each owns its storage, as in eager mode."""

from __future__ import annotations

import copy
import io

import pytest

import flambeau as torch
from flambeau import nn

WAYS = [{"follow": False}, {"follow": True}]
OPTIMIZERS = [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop]
MORE = [*OPTIMIZERS, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adadelta, torch.optim.ASGD,
        torch.optim.Rprop, torch.optim.Adamax]


def make(kind, options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer, x = kind(net.parameters()), torch.randn(5, 4)

    def step():
        optimizer.zero_grad()
        loss = (net(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    if options is None:
        return step, optimizer
    return torch.compile(step, options={"mode": "now", **options}), optimizer


def counters(optimizer):
    return [state["step"] for state in optimizer.state.values()]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_each_counter_owns_its_storage(kind, options):
    step, optimizer = make(kind, options)
    for _ in range(5):
        step()
    for i, counter in enumerate(counters(optimizer)):
        assert (counter.storage_offset(), counter.untyped_storage().nbytes()) == (0, 4)
        assert counter._base is None
        counter.untyped_storage().fill_(0)
        assert [c.item() for c in counters(optimizer)] == [0.0] * (i + 1) + [5.0] * (3 - i)
    assert len({c.untyped_storage().data_ptr() for c in counters(optimizer)}) == 4


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_a_counter_that_moved_is_followed(options):
    step, optimizer = make(torch.optim.Adam, options)
    for _ in range(5):
        step()
    counters(optimizer)[1].set_(torch.tensor(5.0))
    counters(optimizer)[2].resize_(2).resize_(())
    for _ in range(4):
        step()
    assert [c.item() for c in counters(optimizer)] == [9.0] * 4


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_copies_of_an_optimizer_count_on_their_own(options):
    step, optimizer = make(torch.optim.Adam, options)
    for _ in range(5):
        step()
    twin, file = copy.deepcopy(optimizer), io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    step()
    assert [c.item() for c in counters(optimizer)] == [6.0] * 4
    assert [c.item() for c in counters(twin)] == [5.0] * 4
    file.seek(0)
    optimizer.load_state_dict(torch.load(file))
    for _ in range(3):
        step()
    assert [c.item() for c in counters(optimizer)] == [8.0] * 4


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("kind", MORE)
def test_versions_of_the_state_count_the_writes_of_steps(kind, options):
    (eager, expected), (step, actual) = make(kind, None), make(kind, options)
    for call in range(6):
        for function, optimizer in ((eager, expected), (step, actual)):
            function()
            if call == 3 and "step" in optimizer.state[optimizer.param_groups[0]["params"][0]]:
                counters(optimizer)[1].zero_()
        seen = [[{name: x._version for name, x in state.items() if isinstance(x, torch.Tensor)}
                 for state in optimizer.state.values()] for optimizer in (expected, actual)]
        assert seen[0] == seen[1]
