"""torch.distributed with one process, as PyTorch behaves with WORLD_SIZE=1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn


@pytest.fixture
def world() -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_before_there_is_a_group() -> None:
    assert dist.is_available()
    assert not dist.is_initialized()
    assert dist.group.WORLD is None
    for ask in (dist.get_rank, dist.get_world_size, dist.get_backend, dist.barrier):
        with pytest.raises(ValueError, match="make sure to call init_process_group"):
            ask()
    with pytest.raises(ValueError, match="init_process_group"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))


def test_size_and_rank_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="environment variable RANK expected"):
        dist.init_process_group()
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ValueError, match="environment variable MASTER_ADDR expected"):
        dist.init_process_group("gloo")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group("gloo")
    try:
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group("gloo")
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized()


def test_backends_that_are_not_there() -> None:
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in"):
        dist.init_process_group("nccl", rank=0, world_size=1)


@pytest.mark.usefixtures("world")
def test_collectives_of_one() -> None:
    x, y = torch.arange(3.0), torch.zeros(3)
    assert dist.all_reduce(x) is None
    assert dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True).wait()
    dist.broadcast(x, 0)
    dist.all_gather([y], x)
    assert y.tolist() == x.tolist() == [0, 1, 2]
    flat = torch.zeros(1, 3)
    dist.all_gather_into_tensor(flat, x)
    dist.reduce_scatter(y, [2 * x])
    assert (flat.tolist(), y.tolist()) == ([[0, 1, 2]], [0, 2, 4])
    dist.scatter(y, [x + 1])
    assert y.tolist() == [1, 2, 3]
    objects: list[object] = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]


@pytest.mark.usefixtures("world")
def test_what_needs_another_process_says_so() -> None:
    x = torch.ones(2)
    with pytest.raises(ValueError, match="destination rank"):
        dist.send(x, 0)
    with pytest.raises(ValueError, match="rank 1"):
        dist.broadcast(x, 1)
    with pytest.raises(RuntimeError, match="expected length 1, got 2"):
        dist.all_gather([x, x], x)
    with pytest.raises(RuntimeError, match=r"expected \(3\), got \(2\)"):
        dist.all_gather([x], torch.ones(3))


@pytest.mark.usefixtures("world")
def test_a_module_in_data_parallel_trains() -> None:
    torch.manual_seed(0)
    alone = nn.Linear(2, 1)
    net = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    net.load_state_dict({f"module.{k}": v for k, v in alone.state_dict().items()})
    x = torch.randn(4, 2)
    with net.no_sync():
        assert not net.require_backward_grad_sync
        net(x).sum().backward()
    alone(x).sum().backward()
    assert torch.equal(net.module.weight.grad, alone.weight.grad)
    with pytest.raises(RuntimeError, match="any parameter that requires a gradient"):
        nn.parallel.DistributedDataParallel(nn.ReLU())


@pytest.mark.usefixtures("world")
def test_the_sampler_asks_the_group() -> None:
    sampler = torch.utils.data.distributed.DistributedSampler(range(4), shuffle=False)
    assert list(sampler) == [0, 1, 2, 3]


@pytest.mark.usefixtures("world")
def test_private_questions_of_libraries() -> None:
    """ignite asks whether a process is in a group before it gathers."""
    assert not dist._rank_not_in_group(None) and not dist._rank_not_in_group(dist.group.WORLD)
    assert dist._rank_not_in_group(dist.GroupMember.NON_GROUP_MEMBER)
    assert dist._get_process_group_name(dist.group.WORLD) == dist.group.WORLD.group_name
