"""State that is shared out: ZeRO, statistics of all processes, meshes, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint.chunks import Chunk, overlap
from flambeau.distributed.checkpoint.format_utils import (
    _EmptyStateDictLoadPlanner, _load_state_dict, dcp_to_torch_save, torch_save_to_dcp,
)

from .ranks import BACKENDS, needs_gloo, run


@pytest.mark.parametrize("backend", BACKENDS)
def test_with_two_processes(backend: str, tmp_path: Path) -> None:
    run("sharded_state.py", 2, backend, ["all", str(tmp_path)])


@needs_gloo
def test_another_number_of_processes_loads(tmp_path: Path) -> None:
    run("sharded_state.py", 2, arguments=["save", str(tmp_path)])
    run("sharded_state.py", 1, arguments=["load", str(tmp_path)])


@needs_gloo
def test_parts_load_into_another_division(tmp_path: Path) -> None:
    run("sharded_checkpoint.py", 4, arguments=["save", str(tmp_path)])
    run("sharded_checkpoint.py", 2, arguments=["load", str(tmp_path)])


@pytest.mark.parity
@needs_gloo
def test_pytorch_loads_parts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import torch as pytorch
    from torch.distributed import checkpoint

    run("sharded_checkpoint.py", 4, arguments=["save", str(tmp_path)])
    state = {"model": {"0.weight": pytorch.zeros(8, 6), "2.weight": pytorch.zeros(3, 8)}}
    checkpoint.load(state, checkpoint_id=str(tmp_path / "parts"), no_dist=True)
    want = torch.load(tmp_path / "whole.pt")[0]
    for name, value in state["model"].items():
        assert value.tolist() == want[name].tolist()


def test_strided_parts_are_saved_in_blocks() -> None:
    chunk = Chunk((2, 0), torch.zeros(2, 3))
    assert overlap((0, 1), (3, 4), chunk) == ((slice(2, 3), slice(0, 2)),
                                              (slice(0, 1), slice(1, 3)))
    assert overlap((0, 0), (2, 3), chunk) is None


def test_a_checkpoint_becomes_a_file_and_back(tmp_path: Path) -> None:
    state = {"net": {"w": torch.arange(6.0).reshape(2, 3)}, "list": [torch.ones(2), 4], "n": 3}
    dcp.save(state, checkpoint_id=tmp_path / "folder")
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "file")
    whole = torch.load(tmp_path / "file", weights_only=False)
    assert whole["net"]["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert whole["n"] == 3
    assert whole["list"][0].tolist() == [1, 1]
    assert whole["list"][1] == 4
    torch_save_to_dcp(tmp_path / "file", tmp_path / "again")
    target = {"net": {"w": torch.zeros(2, 3)}}
    dcp.load(target, checkpoint_id=tmp_path / "again")
    assert torch.equal(target["net"]["w"], state["net"]["w"])


def test_a_checkpoint_without_a_model(tmp_path: Path) -> None:
    adam = {"state": {0: {"step": torch.tensor(2.0)}, 1: {"step": torch.tensor(3.0)}}, "lr": 0.1}
    dcp.save({"net": {"w": torch.ones(2), "b": torch.zeros(1)}, "adam": adam, "n": 3},
             checkpoint_id=tmp_path)
    reader = dcp.FileSystemReader(tmp_path)

    def read(keys: set[str] | None = None) -> dict[str, Any]:
        state: dict[str, Any] = {}
        planner = _EmptyStateDictLoadPlanner(keys)
        _load_state_dict(state, storage_reader=reader, planner=planner, no_dist=True)
        return state

    whole = read()
    assert whole["net"]["w"].tolist() == [1, 1]
    assert whole["n"] == 3
    assert whole["adam"]["lr"] == 0.1
    assert [state["step"].item() for state in whole["adam"]["state"]] == [2, 3]  # as in PyTorch
    assert read({"n"}) == {"n": 3}
    assert list(read({"net.w"})["net"]) == ["w"]
    assert set(read({"net"})["net"]) == {"w", "b"}
    with pytest.raises(AssertionError, match="not state_dict"):
        _EmptyStateDictLoadPlanner().set_up_planner({"n": 1}, reader.read_metadata())
    with pytest.raises(NotImplementedError, match="the planner object"):
        _load_state_dict({}, reader, planner=object())


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


@pytest.mark.parity
def test_pytorch_rebuilds_the_same_state(tmp_path: Path) -> None:
    loader = pytest.importorskip("torch.distributed.checkpoint.state_dict_loader")
    theirs = pytest.importorskip("torch.distributed.checkpoint")
    planners = pytest.importorskip("torch.distributed.checkpoint.default_planner")
    adam = {"state": {0: {"step": torch.tensor(2.0)}, 1: {"step": torch.tensor(3.0)}}, "lr": 0.1}
    dcp.save({"adam": adam, "list": [torch.ones(1), {"w": torch.ones(2), "n": 5}], "empty": {}},
             checkpoint_id=tmp_path)
    for keys in (None, {"adam"}, {"adam.lr"}, {"list"}):
        results: list[dict[str, Any]] = []
        for planner, load, reader in (
            (_EmptyStateDictLoadPlanner(keys), _load_state_dict, dcp.FileSystemReader(tmp_path)),
            (planners._EmptyStateDictLoadPlanner(keys), loader._load_state_dict,
             theirs.FileSystemReader(str(tmp_path))),
        ):
            results.append({})
            load(results[-1], storage_reader=reader, planner=planner, no_dist=True)
        assert repr(results[0]) == repr(results[1])
