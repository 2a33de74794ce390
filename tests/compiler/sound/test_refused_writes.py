"""Writes that eager mode refuses: a compiled step raises the same error and has written nothing."""

from __future__ import annotations

import pytest

import flambeau as torch

REFUSED = (
    "x[:] = y", "x[0] = y", "x[0, 0] = y", "x[:, :2] = y", "x[..., None] = y", "x[7] = 1.0",
    "x[0, 0, 0] = 1.0", "x[-4] = y", "x[torch.tensor([0, 1])] = y", "x[torch.tensor([9])] = 1.0",
    "x[y > 0] = 1.0", "x[x > 0] = y.flatten()", "x[:] = y.double()", "x[[0, 1]] = y.double()",
    "x[None] = y", "x[()] = y", "x[0:0] = y", "x['a'] = 1.0", "x[:] = 'a'", "x[1.5] = 1.0",
    "x.copy_(y)", "x.index_put_((torch.tensor([0]),), y)", "x.add_(y)", "x.fill_(y)",
    "x.masked_fill_(y > 0, 1.0)",
)
SHAPES = ((4, 1), (1, 1, 3))


def run(write: str, shape: tuple[int, ...], options: dict | None) -> list:
    """What each call gives, and what it leaves in its arguments."""
    log: list[int] = []
    space = {"torch": torch, "log": log}
    # A list that the step reads and changes is followed, never proved.
    count = "log.append(len(log))" if options is None or options["follow"] else "pass"
    exec(f"def step(x, y):\n    {count}\n    x.mul_(2)\n    {write}\n    return x + 0", space)
    step = space["step"]
    if options is not None:
        step = torch.compile(step, options={"mode": "now", **options}, backend="evaluate")
    seen = []
    for y_shape in (shape, (3, 3), (3, 3), shape, (3, 3)):
        x, y = torch.arange(9.0).view(3, 3), torch.arange(1.0, 1.0 + 18).sin()
        y = y[:torch.Size(y_shape).numel()].view(y_shape)
        try:
            result = step(x, y).tolist()
        except Exception as error:
            result = [type(error).__name__, str(error)]
        seen.append((result, x.tolist(), y.tolist(), x._version, y._version))
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("write", REFUSED)
def test_refused_writes(write, follow):
    for shape in SHAPES:
        assert run(write, shape, {"follow": follow}) == run(write, shape, None), shape
