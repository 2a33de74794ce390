"""A Trainer in each of two processes: one result, one writer, and a restart after a rank died."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, os, sys
import flambeau as torch
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.train import Checkpoint, Trainer, step
from flambeau.utils.data import DataLoader, DistributedSampler, TensorDataset
import flambeau.distributed as dist

folder, dies = sys.argv[1], sys.argv[2] == "dies"
dist.init_process_group("gloo")
torch.manual_seed(0)
x = torch.randn(64, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
loader = DataLoader(data, 8, sampler=DistributedSampler(data, shuffle=False))
net = DistributedDataParallel(nn.Linear(4, 1))
trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.05), "mse", metrics="mae",
                  compile=False)
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
if dies and attempt == "0" and dist.get_rank() == 1:
    trainer.attach(step.end(once=10), lambda: os.kill(os.getpid(), 9))
rows = trainer.fit(loader, epochs=4, callbacks=[Checkpoint(folder)], resume=folder)
with open(f"{folder}/rank{dist.get_rank()}.json", "w") as file:
    json.dump([[row["loss"] for row in rows], [row["mae"] for row in rows],
               [p.tolist() for p in net.parameters()], trainer.state.step, attempt], file)
dist.destroy_process_group()
"""


def trained(folder, kind):
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    run = subprocess.run(
        [sys.executable, "-m", "flambeau.distributed.run", "--nproc-per-node=2",
         "--max-restarts=1", "program.py", str(folder), kind],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=200, check=False,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("xoscar") is None, reason="flambeau[gloo] is not installed")
def test_ranks_agree_and_a_killed_rank_is_restarted_from_the_last_checkpoint(tmp_path):
    whole = trained(tmp_path / "whole", "lives")
    assert whole[0] == whole[1]  # losses, metrics and parameters, to the bit
    assert whole[0][3] == 16
    assert whole[0][0][-1] < whole[0][0][0]
    again = trained(tmp_path / "again", "dies")
    assert [result[4] for result in again] == ["1", "1"]
    assert [result[:4] for result in again] == [result[:4] for result in whole]
