"""What the doctor costs: one-minute trainings in fresh processes, in turn without and with it.

    python benchmarks/doctor_cost.py [--seconds 60] [--pairs 3] [--program mlp cnn transformer]

Prints a line for each program: seconds without and with the doctor (medians of the whole processes,
imports included), the overhead in percent, and what the doctor's own clock says. On a quiet
machine: other work changes the two by more than the doctor does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import THREADS

ROOT = Path(__file__).resolve().parent.parent
PRELUDE = """
import sys
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
steps = int(sys.argv[1])
"""
LOOP = """
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
running = 0.0
for step in range(steps):
    rows = torch.randint(0, len(x), (batch,))
    loss = F.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    running += loss.item()
    if step % 200 == 199:
        model.eval()
        with torch.no_grad():
            print(step, running / 200, (model(x[:256]).argmax(1) == y[:256]).float().mean().item())
        model.train()
        running = 0.0
"""
PROGRAMS = {
    "mlp": """
x, batch = torch.randn(4096, 64), 64
y = x[:, :10].argmax(1)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256),
                      nn.ReLU(), nn.Linear(256, 10))
""",
    "cnn": """
x, batch = torch.randn(2048, 3, 32, 32), 32
y = x.mean((2, 3)).argmax(1)
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                      nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32),
                      nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 3))
""",
    "transformer": """
x, batch = torch.randint(0, 50, (2048, 32)), 32
y = x[:, 0] % 5

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(64, 5)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)).mean(1))

model = Model()
""",
}


def run(script: Path, steps: int, watched: bool) -> tuple[float, dict[str, float]]:
    """Seconds of one process, and what the doctor's clock says."""
    report = script.with_suffix(".json")
    options = ["--doctor", f"--json={report}"] if watched else []
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "flambeau", *options, str(script), str(steps)],
                   check=True, cwd=ROOT, capture_output=True, env={**os.environ, **THREADS})
    seconds = time.perf_counter() - begun
    return seconds, json.loads(report.read_text()) if watched else {}


def steps_for(script: Path, seconds: float) -> int:
    """How many steps take about so long, without the doctor."""
    start_s = min(run(script, 1, False)[0] for _ in range(2))  # the first one fills the caches
    steps = 100
    while (training_s := run(script, steps, False)[0] - start_s) < 2.0:
        steps *= 4
    return max(50, int(seconds * steps / training_s))


def measure(name: str, seconds: float, pairs: int) -> str:
    """The line for one program."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{name}.py"
        script.write_text(PRELUDE + PROGRAMS[name] + LOOP)
        steps = steps_for(script, seconds)
        plain, watched, own = [], [], []
        for _ in range(pairs):
            plain.append(run(script, steps, False)[0])
            took, report = run(script, steps, True)
            watched.append(took)
            own.append(report["seconds_watching"])
    off, on = statistics.median(plain), statistics.median(watched)
    return (f"{name:12} {steps:6} steps  off {off:6.1f} s  on {on:6.1f} s  "
            f"{100 * (on / off - 1):+5.1f} %  own clock {statistics.median(own):.1f} s")


def main() -> None:
    """Measures the programs that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--program", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    options = parser.parse_args()
    for name in options.program:
        print(measure(name, options.seconds, options.pairs), flush=True)


if __name__ == "__main__":
    main()
