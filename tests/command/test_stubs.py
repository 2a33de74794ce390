"""The generated stubs are what the registry gives now, and ordinary programs check with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.command.stubs import ROOT, write_stubs

PROGRAM = """
import flambeau as torch
from flambeau import nn
import flambeau.nn.functional as F


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.first(x)).sum(dim=1)


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(3, 4, dtype=torch.float32, device="cpu", requires_grad=True)
loss = F.mse_loss(net(x), torch.zeros(3)) + (x * 2 - 1).pow(2).mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()
with torch.no_grad():
    best = x.max(dim=1).values
    rows: tuple[torch.Tensor, ...] = torch.split(x, 1)
    print(best[0].item(), x.shape[0], x.view(2, -1).t().contiguous().numpy(), len(rows))
torch.save(net.state_dict(), "net.pt")
u, s, v = torch.linalg.svd(x)
"""


STALE = """
from flambeau.command.stubs import ROOT, write_stubs
print([p.relative_to(ROOT).as_posix() for p, text in write_stubs().items()
       if not p.exists() or p.read_text() != text])
"""


def test_the_stubs_are_fresh():
    """In a process of its own: other tests register operators."""
    done = subprocess.run([sys.executable, "-c", STALE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n", "run `make stubs`"


def test_the_stubs_are_deterministic():
    assert write_stubs() == write_stubs()


def _check(program: str, folder: Path) -> str:
    pytest.importorskip("mypy")
    path = folder / "program.py"
    path.write_text(program)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--config-file=",
         "--follow-imports=silent", str(path)],
        cwd=ROOT.parent, capture_output=True, text=True, check=False,
    )
    return run.stdout


@pytest.mark.slow
def test_a_program_type_checks(tmp_path):
    assert "Success" in _check(PROGRAM, tmp_path)


@pytest.mark.slow
def test_a_mistake_is_found(tmp_path):
    actual = _check("import flambeau as torch\ntorch.ones(2).summ()\ntorch.zeross(1)\n", tmp_path)
    assert 'no attribute "summ"' in actual
    assert 'no attribute "zeross"' in actual
