"""fully_shard: the losses and parameters of one process, and of PyTorch."""

from __future__ import annotations

import copy
import json

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from flambeau.distributed.tensor import DTensor, Shard

from .ranks import BACKENDS, needs_gloo, run


@pytest.mark.parametrize("backend", BACKENDS)
def test_trains_as_one_process(backend: str) -> None:
    losses = json.loads("".join(run("fully_shard.py", 2, backend)))
    assert losses["adam"] == losses["kept whole"] == losses["recomputed"]


@needs_gloo
def test_combines_with_replicas_and_tensor_parallelism() -> None:
    losses = json.loads(run("fully_shard.py", 4)[0])
    assert {"hybrid", "tensor parallel"} < losses.keys()


@pytest.mark.parity
def test_losses_are_those_of_pytorch() -> None:
    pytest.importorskip("torch")
    ours = json.loads("".join(run("fully_shard.py")))
    theirs = json.loads("".join(run("fully_shard.py", arguments=["torch"])))
    for name, losses in theirs.items():
        tolerance = 3e-2 if "bfloat16" in name else 2e-5
        assert ours[name] == pytest.approx(losses, abs=tolerance), name


@pytest.fixture(autouse=True)
def group() -> object:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0,
                                         world_size=1)
    yield
    torch.distributed.destroy_process_group()


class Scaled(nn.Module):
    """A module with a method beside forward."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight


def test_parameters_are_dtensors_outside_of_forward() -> None:
    net = fully_shard(Scaled())
    assert isinstance(net, FSDPModule)
    assert isinstance(net, Scaled)
    assert type(net).__name__ == "FSDPScaled"
    y = net(torch.ones(2))
    assert not isinstance(net.weight, DTensor)  # the root's stay whole until backward
    y.sum().backward()
    assert isinstance(net.weight, DTensor)
    assert net.weight.grad.to_local().tolist() == [1, 1]
    with torch.no_grad():
        net.weight.mul_(3)
    assert net(torch.ones(2)).tolist() == [3, 3]


def test_parameters_written_to_between_forwards_are_gathered_again() -> None:
    net = fully_shard(Scaled())
    with torch.no_grad():
        net(torch.ones(2))
        net.load_state_dict({"weight": net.state_dict()["weight"] * 5})
        assert net(torch.ones(2)).tolist() == [5, 5]


def test_other_methods_gather_once_they_are_registered() -> None:
    net = fully_shard(Scaled(), reshard_after_forward=True)
    register_fsdp_forward_method(net, "scale")
    y = net.scale(torch.ones(2))
    assert y.tolist() == [2, 2]
    y.sum().backward()
    assert net.weight.grad.to_local().tolist() == [1, 1]


def test_axes_and_parameters_to_shard_are_chosen() -> None:
    layer = nn.Linear(4, 2)
    fully_shard(layer, shard_placement_fn=lambda p: Shard(p.dim() - 1),
                ignored_params={layer.bias})
    assert layer.weight.placements == (Shard(1),)
    assert not isinstance(layer.bias, DTensor)


def test_parts_of_a_sharded_container_are_plain() -> None:
    net = fully_shard(nn.Sequential(nn.ReLU(), nn.ReLU()))
    assert type(net[:1]) is nn.Sequential


def test_refusals() -> None:
    with pytest.raises(ValueError, match="does not support containers that do not implement"):
        fully_shard(nn.ModuleList([nn.Linear(1, 1)]))
    net = fully_shard(nn.Linear(1, 1))
    with pytest.raises(AssertionError, match="can only be applied to a module once"):
        fully_shard(net)
    with pytest.raises(AssertionError, match="FSDP does not support deepcopy"):
        copy.deepcopy(net)
    scalar = nn.Module()
    scalar.scale = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ValueError, match="doesn't support scalar parameters"):
        fully_shard(scalar)
    with pytest.raises(ValueError, match="does not have a method"):
        register_fsdp_forward_method(net, "absent")
