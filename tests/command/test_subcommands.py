"""The commands that run no program: env, cache and check; and --compile, which compiles models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.command import cache, cli, environment_report
from flambeau.native.foundation import disk_cache


def checked(script: Path) -> tuple[int, str]:
    """The exit code and output of `flambeau check`, in a process of its own: torch is flambeau in
    it from then on."""
    done = subprocess.run([sys.executable, "-m", "flambeau", "check", str(script)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_env_reports_versions_and_processor(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["env"]) == 0
    report = capsys.readouterr().out
    for row in ("flambeau", "Python", "numpy", "llvmlite", "processor", "threads", "cache"):
        assert any(line.startswith(row) for line in report.splitlines()), row
    assert "follows PyTorch 2.13.0" in report


def test_env_names_the_flags_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_DEBUG", "0")
    assert "FLAMBEAU_DEBUG=0" in environment_report.describe()["flags"]


def test_cache_reports_and_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    disk_cache.store("0" * 64, bytes(2**20))
    assert cache.main([]) == 0
    assert "(1.0 of" in capsys.readouterr().out
    assert cli.main(["cache", "clear"]) == 0
    assert "freed 1.0 MB" in capsys.readouterr().out
    assert cache.main(["size"]) == 0
    assert capsys.readouterr().out == "0\n"
    assert cache.main(["nonsense"]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe's reader cannot be closed first")
def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "flambeau", "explain", "no-zero-grad"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_check_names_what_is_missing_and_where(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("from torch import nn\nbroken = nn.Lineer\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import layers\nimport torch as t\nimport torch.nn.functional as F\n"
        "raise SystemExit('check runs nothing')\n"
        "y = F.relu(t.zeros(2)).shape.numel()\nt.flurb(3)\nt.flurb(4)\n"
        "t.ops.library.operator(y)\nt.float32.itemsize\n"
    )
    code, output = checked(script)
    assert code == 1
    lines = output.splitlines()
    assert f"{script}:6 and 1 more: torch.flurb: flambeau has no such name" in lines
    assert f"{tmp_path / 'layers.py'}:2: torch.nn.Lineer: flambeau has no such name" in lines
    assert len(lines) == 3
    assert lines[-1].endswith("in 2 files, 2 missing")


def test_check_passes_over_a_program_that_lacks_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nprint(torch.ones(2))\n")
    assert checked(script) == (0, "2 torch names in 1 file, 0 missing\n")
    assert checked(tmp_path / "absent.py")[0] == 2


RESOLVE = """
from flambeau.command import torch_alias
from flambeau.command.torch_names import resolve
torch_alias.install()
for name in ("nn.functional.relu", "utils.data.DataLoader", "nn.functional.reelu"):
    print(resolve("torch." + name))
"""


def test_names_resolve_as_far_as_modules_go() -> None:
    command = [sys.executable, "-c", RESOLVE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["None", "None", "flambeau has no such name"]


def test_compile_makes_models_programs(tmp_path: Path) -> None:
    from .test_cli import run

    code = """\
        import torch
        from torch import nn
        torch.manual_seed(0)
        inner = nn.Linear(3, 3)
        net, loss = nn.Sequential(inner, nn.ReLU()), nn.MSELoss()
        for _ in range(3):
            loss(net(torch.ones(2, 3)), torch.zeros(2, 3)).backward()
        compiled = [m._compiled_call_impl is not None for m in (net, inner, loss)]
        print(type(net).__name__, compiled)
        """
    plain = run("program.py", cwd=tmp_path, code=code)
    compiled = run("--compile", "program.py", cwd=tmp_path, code=code)
    assert plain.stdout == "Sequential [False, False, False]\n"
    assert compiled.stdout == "Sequential [True, False, False]\n", compiled.stderr


def test_a_program_under_the_profiler(tmp_path) -> None:
    def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flambeau", *arguments]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)

    program = "import torch; print(torch.nn.Linear(2, 3)(torch.ones(1, 2)).shape)"
    done = run("--profile=page.html", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch.Size([1, 3])\n"
    assert "aten::linear" in done.stderr
    assert "flame graph: page.html" in done.stderr
    assert "aten::linear" in (tmp_path / "page.html").read_text()
    failed = run("--profile", "-c", "import torch; torch.ones(2) @ torch.ones(3)", cwd=tmp_path)
    assert failed.returncode == 1
    assert "RuntimeError" in failed.stderr
    assert run("--profile", cwd=tmp_path).returncode == 2
