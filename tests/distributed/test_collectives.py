"""Collectives between processes, with each backend; PyTorch runs the same program."""

from __future__ import annotations

import re

import pytest

from .ranks import BACKENDS, needs_gloo, run


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_collective(backend: str, size: int) -> None:
    printed = "".join(run("collectives.py", size, backend))
    # mpiexec may join the lines of several ranks.
    done = re.findall(r"rank (\d) of (\d) done", printed)
    assert sorted(done) == [(str(rank), str(size)) for rank in range(size)]


@needs_gloo
def test_debug_mode_changes_no_result() -> None:
    run("collectives.py", 2, "gloo", TORCH_DISTRIBUTED_DEBUG="DETAIL")


@pytest.mark.parity
def test_pytorch_agrees() -> None:
    pytest.importorskip("torch")
    run("collectives.py", 2, arguments=["torch"])
