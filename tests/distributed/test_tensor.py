"""DTensors: values and gradients of plain tensors, placements of PyTorch's DTensors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.distributed.tensor import (
    DeviceMesh, DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor,
    placement_types,
)
from flambeau.distributed.tensor.debug import CommDebugMode
from flambeau.distributed.tensor.experimental import implicit_replication
from flambeau.distributed.tensor.redistribute import plan_steps
from flambeau.distributed.tensor.rules.views import match_groups

from .ranks import needs_gloo, run


@needs_gloo
@pytest.mark.parametrize("size", [2, 4])
def test_operators_are_those_of_plain_tensors(size: int) -> None:
    placements = json.loads(run("tensor_operators.py", size)[0])
    assert len(placements) > 40


# Operators that run on whole tensors here, or choose another cut of the same cost.
OTHERS = ("avg_pool1d", "max_pool1d", "conv1d", "batch_norm", "rms_norm", "dot_product",
          "smoothing", "diagonal", "torch.bmm", "gather")


@pytest.mark.parity
def test_placements_are_those_of_pytorch() -> None:
    pytest.importorskip("torch")
    ours = json.loads(run("tensor_operators.py")[0])
    theirs = json.loads(run("tensor_operators.py", arguments=["torch"])[0])
    differing = [(name, placement, ours[name]) for name, placement in theirs.items()
                 if placement != ours[name] and not any(other in name for other in OTHERS)]
    assert not differing


@needs_gloo
def test_parallel_styles_train_as_one_process() -> None:
    losses = json.loads(run("tensor_parallel.py")[0])
    assert len(losses) == 6


@pytest.mark.parity
def test_parallel_styles_train_as_pytorchs() -> None:
    pytest.importorskip("torch")
    ours = json.loads(run("tensor_parallel.py")[0])
    theirs = json.loads(run("tensor_parallel.py", arguments=["torch"])[0])
    for name, losses in theirs.items():
        assert ours[name] == pytest.approx(losses, abs=1e-5), name


@needs_gloo
def test_functions_of_local_parts() -> None:
    seen = json.loads(run("local_map.py")[0])
    product = torch.arange(24.0).reshape(6, 4) @ torch.arange(8.0).reshape(4, 2)
    assert seen["product"] == product.tolist()
    assert seen["tripled"][0] == (torch.arange(8.0).reshape(4, 2) * 3).tolist()
    assert seen["other placements"][0] == "ValueError"


@pytest.mark.parity
def test_functions_of_local_parts_are_pytorchs() -> None:
    pytest.importorskip("torch")
    actual = json.loads(run("local_map.py")[0])
    assert actual == json.loads(run("local_map.py", arguments=["torch"])[0])


@pytest.fixture
def mesh() -> object:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0,
                                         world_size=1)
    yield torch.distributed.init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def test_sums_and_cuts_are_undone_from_the_inside() -> None:
    cut = Shard(0)
    assert list(plan_steps((cut, cut), (Replicate(), cut))) == [
        (1, cut, Replicate()), (0, cut, Replicate()), (1, Replicate(), cut)]
    assert list(plan_steps((Partial(), cut), (cut, Replicate()))) == [
        (1, cut, Replicate()), (0, Partial(), cut)]
    assert list(plan_steps((cut, Shard(1)), (cut, Shard(1)))) == []


def test_shapes_are_matched_in_groups() -> None:
    groups = match_groups((2, 3, 4), (6, 2, 2))
    assert [(list(a), list(b)) for a, b in groups] == [([0, 1], [0]), ([2], [1, 2])]
    assert [(list(a), list(b)) for a, b in match_groups((4, 1), (4,))] == [([0], [0]), ([1], [])]


def test_parameters_of_distributed_modules(mesh: object) -> None:
    net = distribute_module(nn.Linear(2, 2), mesh)
    assert isinstance(net.weight, nn.Parameter)
    assert isinstance(net.weight, DTensor)
    assert net.weight.placements == (Replicate(),)
    net(distribute_tensor(torch.ones(1, 2), mesh, [Shard(0)])).sum().backward()
    assert net.weight.grad.full_tensor().tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="should only be called once"):
        distribute_module(net, mesh)


def test_local_parts_share_memory_and_gradients(mesh: object) -> None:
    local = torch.ones(2, 3, requires_grad=True)
    x = DTensor.from_local(local, mesh, [Shard(0)])
    assert x.to_local().data_ptr() == local.data_ptr()
    (x.redistribute(placements=[Shard(1)]).to_local() * 2).sum().backward()
    assert local.grad.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_refusals(mesh: object) -> None:
    x = distribute_tensor(torch.ones(2, 3), mesh, [Shard(0)])
    with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
        x + torch.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"Can not redistribute from S\(0\) to P\(sum\)"):
        x.redistribute(placements=[Partial()])
    with pytest.raises(AssertionError, match="Sharding dim 5 greater than tensor ndim 2"):
        distribute_tensor(torch.ones(2, 3), mesh, [Shard(5)])
    with pytest.raises(ValueError, match="`placements` must have the same length"):
        distribute_tensor(torch.ones(2, 3), mesh, [Shard(0), Shard(0)])
    with pytest.raises(RuntimeError, match="should be used to distribute leaf tensors"):
        distribute_tensor(torch.ones(2, requires_grad=True) * 2, mesh)
    with pytest.raises(RuntimeError, match="No device mesh is currently active"):
        distribute_tensor(torch.ones(2))
    with pytest.raises(RuntimeError, match="No device mesh is currently active"):
        torch.distributed.tensor.zeros(2)


def test_results_are_written_in_the_placements_of_out(mesh: object) -> None:
    x = distribute_tensor(torch.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
    out = distribute_tensor(torch.zeros(2, 3), mesh, [Replicate()])
    assert torch.add(x, x, out=out) is out
    assert out.placements == (Replicate(),)
    assert out.to_local().tolist() == [[0, 2, 4], [6, 8, 10]]
    targets = tuple(distribute_tensor(torch.zeros(2, dtype=kind), mesh, [Shard(0)])
                    for kind in (torch.float32, torch.int64))
    torch.max(x, 1, out=targets)
    assert [y.full_tensor().tolist() for y in targets] == [[2, 5], [2, 2]]
    with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
        torch.add(x, x, out=torch.zeros(2, 3))


def test_factories_use_the_active_mesh(mesh: object) -> None:
    with mesh:
        torch.manual_seed(0)
        x = torch.distributed.tensor.randn(2, 2, placements=[Shard(0)], requires_grad=True)
        assert torch.distributed.tensor.full((2,), 3).full_tensor().tolist() == [3, 3]
    torch.manual_seed(0)
    assert torch.equal(x.to_local(), torch.randn(2, 2))
    assert x.requires_grad
    assert x.is_leaf


def test_gradients_of_gradients_pass_redistributions(mesh: object) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    y = DTensor.from_local(x, mesh, [Shard(0)]).redistribute(placements=[Replicate()]).to_local()
    (g,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [[6, 6], [6, 6]]


def test_tensors_and_meshes_are_saved(mesh: object, tmp_path: Path) -> None:
    x = distribute_tensor(torch.ones(2, 3), mesh, [Shard(1)])
    torch.save({"x": x}, tmp_path / "x.pt")
    again = torch.load(tmp_path / "x.pt", weights_only=False)["x"]
    assert again.placements == (Shard(1),)
    assert again.device_mesh == mesh
    assert torch.equal(again.full_tensor(), x.full_tensor())


def test_collectives_are_counted(mesh: object) -> None:
    x = distribute_tensor(torch.ones(2, 3), mesh, [Shard(0)])
    with CommDebugMode() as counts:
        x.sum().full_tensor()
        x.redistribute(placements=[Replicate()])
    collectives = torch.ops.c10d_functional
    assert counts.get_comm_counts() == {
        collectives.all_reduce: 1, collectives.all_gather_into_tensor: 1}


def test_plain_tensors_count_as_replicated_inside_the_context(mesh: object) -> None:
    x = distribute_tensor(torch.ones(2, 3), mesh, [Shard(0)])
    with implicit_replication():
        assert (x + torch.ones(2, 3)).placements == (Shard(0),)


def test_meta_tensors_are_distributed_without_values(mesh: object) -> None:
    x = distribute_tensor(torch.empty(4, 2, device="meta"), mesh, [Shard(0)])
    assert x.is_meta
    assert x.redistribute(placements=[Replicate()]).to_local().shape == (4, 2)


def test_placements_have_pytorchs_text() -> None:
    strided = placement_types._StridedShard(0, split_factor=2)
    assert [str(p) for p in (Shard(1), Replicate(), Partial("avg"), strided)] == [
        "S(1)", "R", "P(avg)", "_S(0, 2)"]
    assert repr(strided) == "_StridedShard(dim=0, sf=2)"
    assert Shard(0).is_shard(0)
    assert not Shard(0).is_shard(1)


class _Mesh(DeviceMesh):
    """Process 3 of 4, on two axes."""

    def __init__(self) -> None:
        pass

    def get_coordinate(self) -> list[int]:
        return [1, 1]

    def size(self, mesh_dim: int | None = None) -> int:
        return 2


def test_the_part_of_a_process_as_libraries_ask_for_it() -> None:
    from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset as ask

    assert ask((2, 5), _Mesh(), (Shard(1), Shard(1))) == ((2, 1), (0, 4))
    assert ask((2, 5), _Mesh(), (Replicate(), Shard(0)), skip_offset=True) == ((1, 5), ())
