"""DistributedDataParallel between processes: same parameters on all ranks, PyTorch's losses."""

from __future__ import annotations

import json

import pytest

from .ranks import BACKENDS, run


@pytest.mark.parametrize("backend", BACKENDS)
def test_ways_to_train(backend: str) -> None:
    losses = json.loads("".join(run("data_parallel.py", 2, backend)))
    assert len(losses["plain"]) == 50
    assert losses["plain"][-1] < losses["plain"][0]
    assert losses["plain"][:8] == pytest.approx(losses["view"], rel=1e-6)
    assert losses["plain"][:8] == pytest.approx(losses["static"], rel=1e-6)
    assert losses["plain"][:8] == pytest.approx(losses["allreduce hook"], rel=1e-6)
    assert losses["plain"][:8] == pytest.approx(losses["fp16 hook"], rel=1e-2)
    assert losses["powerSGD"][-1] < losses["powerSGD"][0]


@pytest.mark.parity
def test_losses_are_those_of_pytorch() -> None:
    pytest.importorskip("torch")
    ours = json.loads("".join(run("data_parallel.py")))
    theirs = json.loads("".join(run("data_parallel.py", arguments=["torch"])))
    assert ours.keys() - theirs.keys() == {"bf16 hook", "powerSGD"}
    for name, losses in theirs.items():
        tolerance = 1e-4 if name == "fp16 hook" else 1e-6
        assert ours[name] == pytest.approx(losses, abs=tolerance), name
