"""Saves models whose parameters are DTensors, or loads them with another division.

Arguments: "save" or "load", and a folder. Rank 0 also saves the whole values, to compare with.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
from flambeau import nn
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions, get_state_dict, set_state_dict,
)
from flambeau.distributed.fsdp import FullyShardedDataParallel, StateDictType, fully_shard
from flambeau.distributed.tensor import DTensor, parallel

dist = torch.distributed
what, folder = sys.argv[1], Path(sys.argv[2])
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
WHOLE = StateDictOptions(full_state_dict=True)


def build(seed: int) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def step(net: Any) -> Any:
    """One step of Adam."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    net(torch.arange(12.0).reshape(2, 6)).square().sum().backward()
    optimizer.step()
    return optimizer


@torch.no_grad()
def clear(state: dict[str, Any]) -> None:
    """Zero the tensors of a state dict."""
    for value in state.values():
        value.zero_()


def check(got: Any, want: Any, where: str = "") -> None:
    """Fail where two nested states differ."""
    if isinstance(want, dict):
        assert got.keys() == want.keys(), where
        for key in want:
            check(got[key], want[key], f"{where}.{key}")
    elif isinstance(want, torch.Tensor):
        whole = got.full_tensor() if isinstance(got, DTensor) else got
        torch.testing.assert_close(whole, want, msg=lambda m: f"{where}\n{m}")


def divide(seed: int) -> Any:
    """A model cut over a mesh of data and tensor parallelism, or over all processes."""
    net = build(seed)
    if size < 4:
        return fully_shard(net)
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    parallel.parallelize_module(net, mesh["tp"], {
        "0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()})
    return fully_shard(net, mesh=mesh["dp"])


net = divide(int(what == "load"))
optimizer = step(net)
model, state = get_state_dict(net, optimizer)
assert all(isinstance(value, DTensor) for value in model.values())
if what == "save":
    dcp.save({"model": model, "optimizer": state}, checkpoint_id=folder / "parts")
    whole = get_state_dict(net, optimizer, options=WHOLE)
    flat = FullyShardedDataParallel(build(0), use_orig_params=True)
    flat_optimizer = step(flat)
    with FullyShardedDataParallel.state_dict_type(flat, StateDictType.SHARDED_STATE_DICT):
        parts = flat.state_dict()
        assert all(isinstance(value, DTensor) for value in parts.values())
        moments = FullyShardedDataParallel.optim_state_dict(flat, flat_optimizer)
        assert isinstance(moments["state"]["0.weight"]["exp_avg"], DTensor)
        dcp.save({"model": parts, "optimizer": moments}, checkpoint_id=folder / "flat")
        flat.load_state_dict(parts)
    if rank == 0:
        torch.save(whole, folder / "whole.pt")
else:
    want_model, want_state = torch.load(folder / "whole.pt")
    clear(model)
    target = {"model": model, "optimizer": state}
    dcp.load(target, checkpoint_id=folder / "parts")
    check(target["model"], want_model)
    check(target["optimizer"]["state"], want_state["state"])
    clear(model)
    dcp.load(target, checkpoint_id=folder / "flat")
    check(target["model"], want_model)
    plain = {"model": build(2).state_dict()}
    dcp.load(plain, checkpoint_id=folder / "parts")
    check(plain["model"], want_model)
    clear(net.state_dict())
    set_state_dict(net, optimizer, model_state_dict=want_model, optim_state_dict=want_state,
                   options=WHOLE)
    again = get_state_dict(net, optimizer, options=WHOLE)
    check(again[0], want_model)
    check(again[1]["state"], want_state["state"])
dist.barrier()
dist.destroy_process_group()
