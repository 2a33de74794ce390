"""Starts a program in several processes that find each other, and collects what they print."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from flambeau.distributed.engines.gloo_library import find_module
from flambeau.distributed.engines.mpi import is_mpi_installed

PROGRAMS = Path(__file__).parent / "programs"
PYTORCH_RANK = Path(__file__).parent / "pytorch_rank.py"
ROOT = Path(__file__).resolve().parents[2]

needs_gloo = pytest.mark.skipif(find_module() is None, reason="flambeau[gloo] is not installed")
BACKENDS = [pytest.param("gloo", marks=needs_gloo), "mpi"]


def mpiexec() -> str:
    """The launcher of the MPI beside this interpreter; skips the test where there is none."""
    program = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    if program is None or not is_mpi_installed():
        pytest.skip("flambeau[mpi] is not installed")
    return program


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """What a rank finds in its environment, beside its own variables."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "TORCHELASTIC"))}
    return {**inherited, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
            "FLAMBEAU_NUM_THREADS": "1",
            **more}


def start(
    program: str, size: int, arguments: Sequence[str] = (), started: int | None = None, **more: str
) -> list[subprocess.Popen[str]]:
    """The processes of a program's ranks, as torchrun would start them; the first `started`."""
    port, command = str(free_port()), [str(PROGRAMS / program), *arguments]
    if list(arguments) == ["torch"]:
        command = [str(PYTORCH_RANK), *command]
    return [
        subprocess.Popen(
            [sys.executable, *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size),
                            MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more),
        )
        for rank in range(size if started is None else started)
    ]


def run(
    program: str, size: int = 2, backend: str = "gloo", arguments: Sequence[str] = (),
    timeout_s: float = 120, **more: str,
) -> list[str]:
    """What the ranks print (with MPI as one text); fails where a rank does not end well.

    PyTorch's ranks run up to three times if one aborts (see pytorch_rank.py).
    """
    if backend == "mpi":
        command = [mpiexec(), "-n", str(size), sys.executable, str(PROGRAMS / program), *arguments]
        done = subprocess.run(command, env=environment(BACKEND="mpi", **more), text=True,
                              capture_output=True, timeout=timeout_s, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return [done.stdout]
    for _ in range(3 if list(arguments) == ["torch"] else 1):
        processes, results = _start_and_collect(program, size, arguments, backend, timeout_s, more)
        if all(process.returncode != -signal.SIGABRT for process in processes):
            break
    failed = [err for process, (_, err) in zip(processes, results, strict=True)
              if process.returncode]
    assert not failed, "\n".join(failed)
    return [out for out, _ in results]


def _start_and_collect(
    program: str, size: int, arguments: Sequence[str], backend: str, timeout_s: float,
    more: dict[str, str],
) -> tuple[list[subprocess.Popen[str]], list[tuple[str, str]]]:
    """The ended processes of a program's ranks, and what each wrote to its two streams."""
    processes = start(program, size, arguments, BACKEND=backend, **more)
    try:
        return processes, [process.communicate(timeout=timeout_s) for process in processes]
    finally:
        for process in processes:
            process.kill()
