"""`flambeau --doctor`: exit codes, files, and what goes where."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.doctor import command

PROGRAM = """\
import sys
import torch
from torch import nn
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(20):
    loss = net(torch.ones(2, 4)).mean()
    loss.backward()
    optimizer.step()
print("steps", step + 1, sys.argv[1:])
"""


def run(folder: Path, *options: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(program)
    line = [sys.executable, "-m", "flambeau", *options, "train.py", "a"]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def test_watched_program(tmp_path: Path) -> None:
    done = run(tmp_path, "--doctor", "--json", "out.json", "--html=out.html")
    assert done.returncode == 0
    assert done.stdout == "steps 20 ['a']\n"
    assert "train.py:8: no-zero-grad (certain)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("doctor: 1 certain; ")
    data = json.loads((tmp_path / "out.json").read_text())
    assert [f["id"] for f in data["findings"]] == ["no-zero-grad"]
    assert "<h1>flambeau doctor</h1>" in (tmp_path / "out.html").read_text()


def test_check_stops_early(tmp_path: Path) -> None:
    done = run(tmp_path, "--doctor=check")
    assert done.returncode == command.FAILED
    assert done.stdout == ""
    off = run(tmp_path, "--doctor=check", "--doctor-off=no-zero-grad")
    assert off.returncode == 0


def test_arguments() -> None:
    assert command.parse(["train.py", "--doctor"])[0] is None
    options, rest = command.parse(["--doctor=strict", "--doctor-off", "a,b", "t.py", "--json", "x"])
    assert options == command.Options(mode="strict", off=["a", "b"])
    assert rest == ["t.py", "--json", "x"]
    with pytest.raises(ValueError, match="strict or check"):
        command.parse(["--doctor=fix", "t.py"])


def test_project_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.flambeau.doctor]\nignore = ["no-zero-grad"]\n')
    (tmp_path / "src").mkdir()
    assert command.read_ignored(tmp_path / "src") == ["no-zero-grad"]
