"""ZeroRedundancyOptimizer, SyncBatchNorm, meshes and checkpoints in several processes.

Arguments: what to do ("all", "save" or "load") and the checkpoint's folder.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau import nn
from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from flambeau.distributed.optim import ZeroRedundancyOptimizer

DDP = nn.parallel.DistributedDataParallel
what, folder = sys.argv[1:3]
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def trained(optimizer_of: Any, steps: int = 6) -> tuple[Any, Any]:
    net = DDP(model())
    opt = optimizer_of(net.parameters())
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        opt.zero_grad()
        net(torch.randn(5, 4, generator=generator)).square().sum().backward()
        opt.step()
    return net, opt


def zero_trains_as_its_optimizer() -> None:
    plain, adam = trained(lambda p: torch.optim.Adam(p, lr=0.01))
    shared, zero = trained(lambda p: ZeroRedundancyOptimizer(p, torch.optim.Adam, lr=0.01))
    for a, b in zip(plain.parameters(), shared.parameters(), strict=True):
        assert torch.equal(a, b)
    assert 0 < len(zero.optim.state) < len(adam.state)
    zero.consolidate_state_dict(0)
    if rank == 0:
        whole, expected = zero.state_dict(), adam.state_dict()
        assert whole["state"].keys() == expected["state"].keys()
        for at, state in expected["state"].items():
            assert torch.equal(whole["state"][at]["exp_avg"], state["exp_avg"])
    saved: list[Any] = [zero.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(saved, 0)
    zero.load_state_dict(saved[0])


def statistics_are_those_of_all() -> None:
    x = torch.randn(size * 6, 3, 4, generator=torch.Generator().manual_seed(1))
    alone, together = nn.BatchNorm1d(3), nn.SyncBatchNorm(3)
    whole, part = x.clone().requires_grad_(), x[rank * 6 : rank * 6 + 6].clone().requires_grad_()
    y, z = alone(whole), together(part)
    torch.testing.assert_close(z, y[rank * 6 : rank * 6 + 6])
    torch.testing.assert_close(together.running_var, alone.running_var)
    (y**3).sum().backward()
    (z**3).sum().backward()
    torch.testing.assert_close(part.grad, whole.grad[rank * 6 : rank * 6 + 6], atol=1e-4, rtol=1e-4)
    gradient = together.weight.grad.clone()
    dist.all_reduce(gradient)
    torch.testing.assert_close(gradient, alone.weight.grad, atol=1e-4, rtol=1e-4)


def meshes_have_groups() -> None:
    mesh = dist.init_device_mesh("cpu", (size, 1), mesh_dim_names=("dp", "tp"))
    assert mesh.get_coordinate() == [rank, 0]
    assert mesh["dp"].size() == size
    x = torch.ones(1)
    dist.all_reduce(x, group=mesh.get_group("dp"))
    assert x.item() == size
    dist.all_reduce(x, group=mesh["tp"].get_group())
    assert x.item() == size


def save() -> None:
    net, opt = trained(lambda p: torch.optim.Adam(p, lr=0.01))
    weights, states = get_state_dict(net, opt)
    dcp.save({"net": weights, "opt": states, "step": 6, f"of rank {rank}": torch.full((2,), rank)},
             checkpoint_id=folder)
    assert len([name for name in os.listdir(folder) if name.endswith(".distcp")]) == size


def load() -> None:
    expected, adam = None, None
    net = DDP(model())
    opt = torch.optim.Adam(net.parameters(), lr=0.5)
    net(torch.randn(5, 4)).sum().backward()
    opt.step()
    weights, states = get_state_dict(net, opt)
    state = {"net": weights, "opt": states, "step": 0, "of rank 1": torch.zeros(2, dtype=int)}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(net, opt, model_state_dict=state["net"], optim_state_dict=state["opt"])
    assert state["step"] == 6
    assert state["of rank 1"].tolist() == [1, 1]
    assert opt.param_groups[0]["lr"] == 0.01
    assert [s["step"].item() for s in opt.state.values()] == [6] * len(opt.state)
    if what == "all":
        expected, adam = trained(lambda p: torch.optim.Adam(p, lr=0.01))
        for a, b in zip(expected.parameters(), net.parameters(), strict=True):
            assert torch.equal(a, b)
        assert len(adam.state) == len(opt.state)
    try:
        dcp.load({"absent": torch.ones(1)}, checkpoint_id=folder)
    except RuntimeError as error:
        assert "Missing key in checkpoint state_dict: absent" in str(error)  # noqa: PT017


if what == "all":
    zero_trains_as_its_optimizer()
    statistics_are_those_of_all()
    meshes_have_groups()
if what != "load":
    save()
if what != "save":
    load()
dist.barrier()
dist.destroy_process_group()
