"""Steps that advance a scheduler and look at its state, which changes behind Python's back.

The rate of StepLR stays for two calls, so that recordings of these agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F

CALLS = 9
READS: dict[str, Callable[[Any, Any], Any]] = {
    "get_last_lr": lambda schedule, optimizer: schedule.get_last_lr(),
    "state of the scheduler": lambda schedule, optimizer: schedule.state_dict()["_last_lr"],
    "attribute": lambda schedule, optimizer: schedule.last_epoch // 2,
    "group": lambda schedule, optimizer: optimizer.param_groups[0]["lr"],
    "groups": lambda schedule, optimizer: [group["lr"] for group in optimizer.param_groups],
    "state of the optimizer": lambda schedule, optimizer: (
        optimizer.state_dict()["param_groups"][0]["lr"]),
}


def run(read: Callable[[Any, Any], Any], is_read_first: bool, compiled: bool) -> list[Any]:
    """What a step logs and returns, call by call, and the parameters at the end."""
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    log: list[Any] = []

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        if is_read_first:
            log.append(read(schedule, optimizer))
        schedule.step()
        return loss, None if is_read_first else read(schedule, optimizer)

    call = torch.compile(step, mode="now", fullgraph=False) if compiled else step
    results = [call() for _ in range(CALLS)]
    return [log, [state for _, state in results], [loss.item() for loss, _ in results],
            net.weight.sum().item()]


@pytest.mark.parametrize("is_read_first", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_schedule_that_is_read(read: Callable[[Any, Any], Any], is_read_first: bool) -> None:
    log, states, losses, total = run(read, is_read_first, compiled=False)
    compiled = run(read, is_read_first, compiled=True)
    assert compiled[:2] == [log, states]
    assert compiled[2] == pytest.approx(losses, rel=1e-4)
    assert compiled[3] == pytest.approx(total, rel=1e-4)
