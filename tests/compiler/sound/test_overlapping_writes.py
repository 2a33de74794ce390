"""Writes whose target shares memory with what they read, where the calls before had none to share.

Eager mode refuses some of them before it writes, and reads all elements of others first.
"""

from __future__ import annotations

import pytest

import flambeau as torch

WRITES = (
    "x.copy_(y)", "x.copy_(y.select(-1, 0))", "x[:] = y", "x[:, 0] = y[0]", "x.t().copy_(y)",
    "x.add_(y)", "x.add_(y.select(-1, 0))", "torch.add(y, y, out=x)", "torch.mm(y, y, out=x)",
    "torch.cat([y[:1], y[1:]], out=x)", "x[torch.tensor([0, 1])] = y[:2]", "x[y > 4] = 0",
    "x.put_(torch.tensor([0, 1]), y[0, :2])", "x[0] = y[0, 0]", "x[:] = y[0]", "x[1:] = y[:1]",
)
LAYOUTS = {
    "same": lambda whole: (whole[:9].view(3, 3),) * 2,
    "rows apart": lambda whole: (whole[:9].view(3, 3), whole[3:12].view(3, 3)),
    "transposed": lambda whole: (whole[:9].view(3, 3), whole[:9].view(3, 3).t()),
    "expanded": lambda whole: (whole[:3].expand(3, 3), whole[9:18].view(3, 3)),
}
APART = lambda whole: (whole[:9].view(3, 3).clone(), whole[9:18].view(3, 3).clone())  # noqa: E731


def run(write: str, layout: str, options: dict | None) -> list:
    """What each call gives, and what it leaves in its arguments."""
    log: list[int] = []
    space = {"torch": torch, "log": log}
    # A list that the step reads and changes is followed, never proved.
    count = "log.append(len(log))" if options is None or options["follow"] else "pass"
    exec(f"def step(x, y):\n    {count}\n    z = x * 1\n    {write}\n    return x + 0, z", space)
    step = space["step"]
    if options is not None:
        step = torch.compile(step, options={"mode": "now", **options}, backend="evaluate")
    seen = []
    for arrange in (*[APART] * 4, *[LAYOUTS[layout]] * 2, APART, LAYOUTS[layout]):
        x, y = arrange(torch.arange(24.0))
        try:
            result = [part.tolist() for part in step(x, y)]
        except Exception as error:
            result = [type(error).__name__, str(error)]
        seen.append((result, x.tolist(), y.tolist(), x._version, y._version))
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("write", WRITES)
def test_writes_over_what_they_read(write, layout, follow):
    assert run(write, layout, {"follow": follow}) == run(write, layout, None)
