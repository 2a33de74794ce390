"""Ranks that die, hang, disagree or never come: the others hear of it in time."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from .ranks import needs_gloo, start

pytestmark = needs_gloo


def outcome(
    fault: str, size: int = 2, arguments: tuple[str, ...] = (), started: int | None = None,
    **more: str,
) -> list[tuple[float, str]]:
    """What each rank that reports saw: (seconds, text). No rank may hang."""
    processes = start("faults.py", size, [fault, *arguments], started=started, **more)
    seen = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=40)
            if out:
                seconds, text = out.split(" ", 1)
                seen.append((float(seconds), text))
            elif process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, err
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return seen


def kill_a_rank(step: int) -> None:
    ((seconds, text),) = outcome("killed", arguments=(str(step),))
    assert text.startswith("DistBackendError"), text
    assert seconds < 20


def test_a_rank_that_is_killed_in_backward() -> None:
    kill_a_rank(2)


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, 21))
def test_a_rank_that_is_killed_in_any_backward(step: int) -> None:
    kill_a_rank(step)


def kill_a_rank_that_saves(folder: Path, seconds: float) -> None:
    ((waited, text),) = outcome("checkpoint", arguments=(str(folder), str(seconds)))
    assert text.startswith("Dist"), text
    assert waited < 20


def test_a_rank_that_is_killed_in_a_checkpoint(tmp_path: Path) -> None:
    kill_a_rank_that_saves(tmp_path, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_a_rank_that_is_killed_anywhere_in_a_checkpoint(number: int, tmp_path: Path) -> None:
    kill_a_rank_that_saves(tmp_path, 0.02 + 0.017 * number)


def test_a_rank_that_is_killed_in_a_compiled_step() -> None:
    ((seconds, text),) = outcome("compiled")
    assert text.startswith("DistBackendError"), text
    assert seconds < 20


def test_a_rank_that_does_not_answer() -> None:
    ((seconds, text),) = outcome("silent")
    assert "DistBackendError" in text
    assert "monitored_barrier" in text
    assert 2.5 < seconds < 10


def test_a_barrier_names_who_is_missing() -> None:
    (first, text), (_, other) = outcome("missing", 3)
    assert text.startswith("RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 10")
    assert "Rank 1 successfully reached monitoredBarrier" in other
    assert first < 5


@pytest.mark.parametrize("fault, difference", [
    ("shape", "Tensor Tensor shapes: [[2]]vs [[3]]"),
    ("dtype", "Tensor Tensor dtypes: ['Float']vs ['Double']"),
    ("order", "Op type: BROADCASTvs ALLREDUCE"),
])
def test_debug_mode_names_what_differs(fault: str, difference: str) -> None:
    (_, text), (_, other) = outcome(fault, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert text.startswith("RuntimeError: Detected mismatch between collectives on ranks. Rank 0")
    assert difference in text
    assert "Rank 1 is running collective" in other


def test_processes_that_do_not_come() -> None:
    ((seconds, text),) = outcome("nobody", started=1)
    assert "1/2 clients joined" in text
    assert "Missing: rank 1 of 2." in text
    assert seconds < 10
    outcomes = outcome("one of three", 3, started=2)
    assert "Missing: rank 2 of 3." in outcomes[0][1]
    ((_, text),) = outcome("in use", started=1)
    assert text.startswith("DistNetworkError"), text
    assert "EADDRINUSE" in text
    ((seconds, text),) = outcome("wrong address", started=1)
    assert "DistNetworkError" in text
    assert "MASTER_ADDR" in text
    assert seconds < 10


def test_ctrl_c_ends_a_rank_that_waits() -> None:
    processes = start("faults.py", 2, ["interrupted"])
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        processes[0].send_signal(signal.SIGINT)
        assert processes[0].wait(timeout=10) in (1, -signal.SIGINT)
    except subprocess.TimeoutExpired:
        pytest.fail("Ctrl-C does not end a rank that waits")
    finally:
        for process in processes:
            process.kill()
            process.communicate()
