"""State that is shared out: ZeRO, statistics of all processes, meshes, checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp

from .ranks import BACKENDS, needs_gloo, run


@pytest.mark.parametrize("backend", BACKENDS)
def test_with_two_processes(backend: str, tmp_path: Path) -> None:
    run("sharded_state.py", 2, backend, ["all", str(tmp_path)])


@needs_gloo
def test_another_number_of_processes_loads(tmp_path: Path) -> None:
    run("sharded_state.py", 2, arguments=["save", str(tmp_path)])
    run("sharded_state.py", 1, arguments=["load", str(tmp_path)])


def test_a_checkpoint_becomes_a_file_and_back(tmp_path: Path) -> None:
    state = {"net": {"w": torch.arange(6.0).reshape(2, 3)}, "list": [torch.ones(2), 4], "n": 3}
    dcp.save(state, checkpoint_id=tmp_path / "folder")
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "file")
    whole = torch.load(tmp_path / "file", weights_only=False)
    assert whole["net"]["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert whole["n"] == 3
    torch_save_to_dcp(tmp_path / "file", tmp_path / "again")
    target = {"net": {"w": torch.zeros(2, 3)}}
    dcp.load(target, checkpoint_id=tmp_path / "again")
    assert torch.equal(target["net"]["w"], state["net"]["w"])


def test_bad_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Must provide either `checkpoint_id`"):
        dcp.save({"a": torch.ones(1)})
    with pytest.raises(FileNotFoundError):
        dcp.load({"a": torch.ones(1)}, checkpoint_id=tmp_path)
    dcp.save({"a": torch.ones(3)}, checkpoint_id=tmp_path)
    with pytest.raises(ValueError, match="Size mismatch"):
        dcp.load({"a": torch.ones(2)}, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(Exception, match=r"asks for os\.system"):
        dcp.load({"a": torch.ones(3)}, checkpoint_id=tmp_path)


@pytest.mark.parity
def test_pytorch_reads_and_writes_the_same(tmp_path: Path) -> None:
    other = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.distributed.checkpoint")
    state = {"w": torch.arange(6.0).reshape(2, 3), "n": 3, "s": torch.tensor(2)}
    dcp.save(state, checkpoint_id=tmp_path / "ours")
    read = {"w": other.zeros(2, 3), "n": 0, "s": other.tensor(0)}
    theirs.load(read, checkpoint_id=str(tmp_path / "ours"))
    assert read["w"].tolist() == state["w"].tolist()
    assert (read["n"], read["s"].item()) == (3, 2)
    theirs.save({"w": other.full((2, 3), 7.0), "n": 9}, checkpoint_id=str(tmp_path / "theirs"))
    target = {"w": torch.zeros(2, 3), "n": 0}
    dcp.load(target, checkpoint_id=tmp_path / "theirs")
    assert target["w"].tolist() == [[7.0] * 3] * 2
    assert target["n"] == 9
