"""Models divided among processes: the losses and parameters of one process, and of PyTorch."""

from __future__ import annotations

import json
import warnings

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.distributed.fsdp import FullyShardedDataParallel, StateDictType
from flambeau.distributed.fsdp.released_memory import ReleasableArray
from flambeau.distributed.fsdp.wrap import enable_wrap, wrap

from .ranks import BACKENDS, run


@pytest.mark.parametrize("backend", BACKENDS)
def test_trains_as_one_process(backend: str) -> None:
    losses = json.loads("".join(run("fully_sharded.py", 2, backend)))
    assert losses["FULL_SHARD False"] == losses["SHARD_GRAD_OP True"] == losses["no prefetch"]


@pytest.mark.parity
def test_losses_are_those_of_pytorch() -> None:
    pytest.importorskip("torch")
    ours = json.loads("".join(run("fully_sharded.py")))
    theirs = json.loads("".join(run("fully_sharded.py", arguments=["torch"])))
    assert ours.keys() - theirs.keys() == {"reentrant"}
    for name, losses in theirs.items():
        # Losses are up to 8: four units in the last place of float32, which processors differ by.
        tolerance = {"abs": 2e-2} if "bfloat16" in name else {"rel": 5e-7, "abs": 1e-6}
        assert ours[name] == pytest.approx(losses, **tolerance), name


@pytest.fixture
def group() -> object:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0,
                                         world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_released_memory_keeps_its_address() -> None:
    memory = ReleasableArray(5000, torch.ones(1).numpy().dtype)
    memory.array[:] = 3
    view = memory.array[100:200]
    memory.release()
    memory.array[:] = 4
    assert view.tolist() == [4.0] * 100


def test_one_process_does_not_shard(group: object) -> None:
    with pytest.warns(UserWarning, match="FSDP is switching to use `NO_SHARD`"):
        net = FullyShardedDataParallel(nn.Linear(2, 2), use_orig_params=True)
    assert [name for name, _ in net.named_parameters()] == ["weight", "bias"]
    assert net.weight.shape == (2, 2)
    net(torch.ones(1, 2)).sum().backward()
    assert net.weight.grad.tolist() == [[1, 1], [1, 1]]


def test_refusals(group: object) -> None:
    warnings.simplefilter("ignore")
    with pytest.raises(ValueError, match="Must flatten tensors with uniform dtype"):
        FullyShardedDataParallel(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).double()))
    frozen = nn.Linear(1, 1)
    frozen.bias.requires_grad_(False)
    with pytest.raises(ValueError, match="uniform `requires_grad` when `use_orig_params=False`"):
        FullyShardedDataParallel(frozen)
    with pytest.raises(ValueError, match="device_id=0 names a GPU"):
        FullyShardedDataParallel(nn.Linear(1, 1), device_id=0)
    net = FullyShardedDataParallel(nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="Expected state_dict_config of type"):
        FullyShardedDataParallel.set_state_dict_type(
            net, StateDictType.FULL_STATE_DICT, torch.distributed.fsdp.LocalStateDictConfig()
        )


def test_wrap_outside_of_its_context_does_nothing() -> None:
    layer = nn.Linear(1, 1)
    assert wrap(layer) is layer
    with enable_wrap(wrapper_cls=nn.Sequential):
        assert isinstance(wrap(layer), nn.Sequential)
        inner = enable_wrap(wrapper_cls=nn.Sequential)
        with pytest.raises(NotImplementedError, match="nested autowrap"):
            inner.__enter__()
    assert wrap(layer) is layer
