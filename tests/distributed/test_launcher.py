"""torchrun and elastic_launch: environment, logs, failures, restarts, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flambeau.distributed import run
from flambeau.distributed.elastic.multiprocessing import Std, errors
from flambeau.distributed.elastic.agreement import free_port
from flambeau.distributed.launcher import LaunchConfig, elastic_launch

ROOT = Path(__file__).resolve().parents[2]
WORKER = """
import os, sys, time
import torch
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
         "ROLE_NAME", "TORCHELASTIC_MAX_RESTARTS")
shown = [attempt] if "kill" in sys.argv else []
fields = [os.environ[name] for name in names]
fields += [str(torch.get_num_threads()), *sys.argv[1:], *shown]
sys.stdout.write(" ".join(fields) + "\\n")  # one write: the ranks share a pipe, unbuffered
if "fail" in sys.argv and rank == "1" and attempt == "0":
    raise ValueError("rank 1 does not like this")
if "kill" in sys.argv and rank == "1" and attempt == "0":
    os.kill(os.getpid(), 9)
if "fail" in sys.argv or "kill" in sys.argv:
    time.sleep(0 if attempt == "1" else 60)
if "wait" in sys.argv:
    sys.stdout.write(f"pid {os.getpid()}\\n")
    time.sleep(60)
"""


@pytest.fixture
def torchrun(tmp_path):
    (tmp_path / "work.py").write_text(WORKER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("OMP_NUM_THREADS", None)
    environment.pop("FLAMBEAU_THREADS", None)

    def start(*args):
        return subprocess.Popen(
            [sys.executable, "-m", "flambeau", "-m", "torch.distributed.run", *args],
            cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return start


def ended(process):
    out, err = process.communicate(timeout=100)
    return process.returncode, sorted(out.splitlines()), err


def test_workers_get_pytorchs_environment_and_the_alias(torchrun):
    code, lines, err = ended(torchrun("--nproc-per-node=2", "work.py", "--lr", "3"))
    assert code == 0, err
    assert lines == [f"{rank} {rank} 2 2 0 localhost default 0 1 --lr 3" for rank in (0, 1)]
    assert "Setting OMP_NUM_THREADS environment variable for each process to be 1" in err


def test_a_failing_rank_ends_the_others_and_its_traceback_comes_first(torchrun):
    start = time.monotonic()
    code, _, err = ended(torchrun("--standalone", "--nproc_per_node", "2", "work.py", "fail"))
    assert time.monotonic() - start < 50
    assert code == 1
    first, report = err.split("failed first", 1)[1].split("work.py FAILED")
    assert "ValueError: rank 1 does not like this" in first
    assert "  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: " in report
    assert "ValueError: rank 1 does not like this" in report
    assert "<NO_OTHER_FAILURES>" in report


def test_restarts_after_a_worker_was_killed(torchrun):
    code, lines, err = ended(
        torchrun("--nproc-per-node=2", "--max-restarts=1", "work.py", "kill")
    )
    assert code == 0, err
    assert "Signal 9 (SIGKILL) received by PID" in err
    assert "All workers start again: restart 1." in err
    again = [line.split() for line in lines if line.split()[-1] == "1"]
    assert {line[0] for line in again} == {"0", "1"}


def test_logs_by_rank(torchrun, tmp_path):
    code, lines, err = ended(torchrun("--nproc-per-node=2", "--log-dir=logs", "--redirects=0:1",
                                      "--tee=1:3", "--rdzv-id=job", "--master-port=29733",
                                      "-m", "work"))
    assert code == 0, err
    assert lines == ["[default1]:1 1 2 2 0 127.0.0.1 default 0 1"]
    (job,) = (tmp_path / "logs").iterdir()
    assert job.name.startswith("job_")
    texts = [(job / "attempt_0" / str(rank) / "stdout.log").read_text() for rank in (0, 1)]
    assert [text.split()[0] for text in texts] == ["0", "1"]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow),
                                    signal.SIGTERM, signal.SIGKILL])
def test_no_worker_is_left_when_the_launcher_ends(torchrun, number):
    process = torchrun("--nproc-per-node=2", "work.py", "wait")
    assert process.stdout is not None
    pids: list[int] = []
    while len(pids) < 2:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        if line.startswith("pid"):
            pids.append(int(line.split()[1]))
    process.send_signal(number)
    code, _, _ = ended(process)
    assert code in (128 + number, -number)
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_launchers_of_two_machines_meet(torchrun):
    """Both are here: the first to come serves the store."""
    args = ("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}",
            "--rdzv-id=job", "--rdzv-conf=timeout=60", "--max-restarts=1")
    first = torchrun(*args, "--nproc-per-node=1", "work.py", "kill")
    other = torchrun(*args, "--nproc-per-node=2", "work.py", "kill")
    results = [ended(first), ended(other)]
    assert [result[0] for result in results] == [0, 0], results
    lines = [line.split() for _, lines, _ in results for line in lines]
    assert {line[0] for line in lines} == {"0", "1", "2"}
    assert sum(line[0] == "1" for line in lines) == 2  # it was killed, and started again
    assert {(line[2], line[5]) for line in lines} == {("3", "localhost")}
    for attempt in ("0", "1"):  # who comes first may be another each time
        places = sorted({(line[3], line[4]) for line in lines if line[-1] == attempt})
        assert set(places) <= {("1", "0"), ("2", "1")} or set(places) <= {("1", "1"), ("2", "0")}


def multiplied(factor):
    return int(os.environ["RANK"]) * factor


def failing():
    raise KeyError("nothing")


def config(**options):
    return LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_backend="c10d",
                        start_method="fork", max_restarts=0, **options)


@pytest.fixture
def signals():
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP,
                                               signal.SIGQUIT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_functions_return_their_values(signals):
    assert elastic_launch(config(), multiplied)(10) == {0: 0, 1: 10}


def test_functions_that_fail(signals):
    with pytest.raises(errors.ChildFailedError) as caught:
        elastic_launch(config(), failing)()
    rank, failure = caught.value.get_first_failure()
    assert failure.exitcode == 1
    assert "KeyError: 'nothing'" in failure.message["extraInfo"]["py_callstack"]
    assert str(caught.value).splitlines()[2] == "failing FAILED"
    assert failure.local_rank == rank


def test_record_writes_the_error_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    with pytest.raises(KeyError):
        errors.record(failing)()
    failure = errors.ProcessFailure(0, 1, 1, str(tmp_path / "error.json"))
    assert failure.message["message"] == "KeyError: 'nothing'"
    assert failure.timestamp > 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nproc-per-node=gpu"], "Cuda is not available."),
        (["--nproc-per-node=many"], "Unsupported nproc_per_node value: many"),
        (["--redirects=7"], "7 does not match"),
        (["--rdzv-conf=timeout"], "must have format <key>=<value>"),
        (["--no-python", "-m"], "Don't use both the '--no-python' flag"),
        (["--master-addr=here", "--master-port=1", "--rdzv-endpoint=here:x"], "must be an integer"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        run.run(run.parse_args([*arguments, "work.py"]))


def test_options_come_from_the_environment_too(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_STANDALONE", "1")
    args = run.parse_args(["--max_restarts", "2", "train.py", "--nnodes", "7"])
    assert (args.nproc_per_node, args.standalone, args.max_restarts) == ("3", True, 2)
    assert args.training_script_args == ["--nnodes", "7"]


@pytest.mark.parity
@pytest.mark.parametrize("line", ["--nnodes=1:4 -r 3 a.py b", "--nproc_per_node=2 -m x -y"])
def test_command_lines_are_parsed_like_pytorchs(line):
    pytest.importorskip("torch")
    from torch.distributed import run as theirs

    ours, expected = vars(run.parse_args(line.split())), vars(theirs.parse_args(line.split()))
    assert ours == expected


def test_streams_by_rank():
    assert Std.from_str("0:3,1:0") == {0: Std.ALL, 1: Std.NONE}
