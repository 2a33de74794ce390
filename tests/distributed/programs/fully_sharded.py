"""Trains with FullyShardedDataParallel in several ways; rank 0 prints the losses as JSON.

The first argument is the library. Every way ends with the parameters of training in one process on
all the data.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import json
import os
import sys
import warnings
from typing import Any

library = sys.argv[1] if len(sys.argv) > 1 else "flambeau"
torch = importlib.import_module(library)
nn, F = torch.nn, torch.nn.functional
dist = torch.distributed
fsdp = importlib.import_module(f"{library}.distributed.fsdp")
wrapping = importlib.import_module(f"{library}.distributed.fsdp.wrap")
checkpointing = importlib.import_module(f"{library}.utils.checkpoint")
checkpoint = checkpointing.checkpoint
FSDP, Strategy, Precision = (
    fsdp.FullyShardedDataParallel, fsdp.ShardingStrategy, fsdp.MixedPrecision
)
torch.set_num_threads(1)
warnings.filterwarnings("ignore")

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
losses: dict[str, list[float]] = {}
STEPS, ROWS, CPU = 6, 4, torch.device("cpu")


class Block(nn.Module):
    """A residual block; `checkpointing` runs it again in backward."""

    def __init__(self, width: int, checkpointing: str = "") -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale = nn.Parameter(torch.ones(width))
        self.checkpointing = checkpointing

    def inner(self, x: Any) -> Any:
        return self.second(self.first(x).relu()) * self.scale

    def forward(self, x: Any) -> Any:
        if self.checkpointing in ("saved tensors", "reentrant"):
            return x + checkpoint(self.inner, x, use_reentrant=self.checkpointing == "reentrant")
        return x + self.inner(x)


class Net(nn.Module):
    """Blocks, of which the first runs twice, and a tied weight."""

    def __init__(self, checkpointing: str = "") -> None:
        super().__init__()
        self.checkpointing, self.embed = checkpointing, nn.Embedding(11, 7)
        self.blocks = nn.ModuleList(Block(7, checkpointing) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(7), nn.Linear(7, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        h = self.embed(x)
        for block in [self.blocks[0], *self.blocks]:
            around = self.checkpointing == "around"  # a sharded module inside checkpoint
            h = checkpoint(block, h, use_reentrant=False) if around else block(h)
        return self.head(self.norm(h))


BLOCKS = wrapping.ModuleWrapPolicy({Block})


def batches(count: int, everything: bool = False) -> list[Any]:
    generator = torch.Generator().manual_seed(100)
    wide = [(torch.randint(11, (ROWS * size, 5), generator=generator),
             torch.randint(11, (ROWS * size, 5), generator=generator)) for _ in range(count)]
    if everything:
        return wide
    own = slice(rank * ROWS, (rank + 1) * ROWS)
    return [(x[own], y[own]) for x, y in wide]


def loss_of(net: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(net(x).flatten(0, 1).float(), y.flatten())


def freeze(net: Any) -> Any:
    for name, parameter in net.named_parameters():
        if "second" in name or "norm" in name:
            parameter.requires_grad_(False)
    return net


def steps(net: Any, opt: Any, data: list[Any], accumulate: int = 1, clip: float = 0.0,
          no_sync: Any = contextlib.nullcontext) -> list[float]:
    results = []
    for step, (x, y) in enumerate(data):
        is_last = step % accumulate == accumulate - 1
        with contextlib.nullcontext() if is_last else no_sync():
            loss = loss_of(net, x, y)
            loss.backward()
        results.append(loss.item())
        if is_last:
            if clip and isinstance(net, FSDP):
                net.clip_grad_norm_(clip)
            elif clip:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            opt.step()
            opt.zero_grad()
    return results


def optimizer_of(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=0.02)


def mean(numbers: list[float]) -> list[float]:
    total = torch.tensor(numbers, dtype=torch.float64)
    dist.all_reduce(total)
    return (total / size).tolist()


def train(name: str, checkpointing: str = "", frozen: bool = False, accumulate: int = 1,
          clip: float = 0.0, syncs_always: bool = False, tolerance: float = 1e-5,
          **options: Any) -> Any:
    """Train, sharded and alone on all the data; compare losses and parameters."""
    torch.manual_seed(0)
    alone = freeze(Net(checkpointing)) if frozen else Net(checkpointing)
    plain = optimizer_of(alone.parameters())
    expected = steps(alone, plain, batches(STEPS, True), accumulate, clip)
    torch.manual_seed(0)
    inner = freeze(Net(checkpointing)) if frozen else Net(checkpointing)
    net = FSDP(inner, **{"auto_wrap_policy": BLOCKS, "device_id": CPU, **options})
    opt = optimizer_of(net.parameters())
    no_sync = contextlib.nullcontext if syncs_always else net.no_sync
    actual = mean(steps(net, opt, batches(STEPS), accumulate, clip, no_sync))
    losses[name] = actual
    assert all(abs(a - b) < tolerance for a, b in zip(actual, expected, strict=True)), \
        (name, actual, expected)
    state = net.state_dict()
    assert list(state) == list(alone.state_dict()), (name, list(state))
    for key, value in alone.state_dict().items():
        error = (state[key] - value).abs().max().item()
        assert state[key].shape == value.shape and error < 50 * tolerance, (name, key, error)
    return net, opt, alone


def strategies() -> None:
    for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
        for whole in (False, True):
            train(f"{strategy} {whole}", sharding_strategy=Strategy[strategy],
                  use_orig_params=whole)


def options() -> None:
    train("one unit", auto_wrap_policy=None)
    train("accumulated", accumulate=2)
    train("accumulated, synchronized", accumulate=2, syncs_always=True, use_orig_params=True)
    train("clipped", clip=0.1)
    train("clipped, own parameters", clip=0.1, use_orig_params=True)
    train("frozen", frozen=True, use_orig_params=True)
    train("prefetch after", backward_prefetch=fsdp.BackwardPrefetch.BACKWARD_POST)
    train("no prefetch", backward_prefetch=None)
    train("checkpointing", checkpointing="saved tensors")
    train("checkpointing, own parameters", checkpointing="saved tensors", use_orig_params=True)
    if library != "torch":  # which frees the parameters of a block that runs twice too early
        train("reentrant", checkpointing="reentrant")
    with checkpointing.set_checkpoint_early_stop(False):
        train("around", checkpointing="around")
    train("size", auto_wrap_policy=functools.partial(
        wrapping.size_based_auto_wrap_policy, min_num_params=100))
    train("lambda", auto_wrap_policy=functools.partial(
        wrapping.lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.Linear)
        and m.out_features != 11))
    train("custom", auto_wrap_policy=wrapping.CustomPolicy(
        lambda m: {"sharding_strategy": Strategy.SHARD_GRAD_OP} if isinstance(m, Block) else False))
    train("bfloat16", mixed_precision=Precision(torch.bfloat16, torch.float32), tolerance=5e-2)
    train("bfloat16 gradients", mixed_precision=Precision(torch.bfloat16), tolerance=5e-2)


def shapes() -> None:
    """What a process stores, and what programs see of it."""
    torch.manual_seed(0)
    net = FSDP(Net(), auto_wrap_policy=BLOCKS, device_id=CPU)
    whole = sum(p.numel() for p in Net().parameters())
    part = sum(p.numel() for p in net.parameters())
    assert whole / size <= part <= whole / size + 8, (whole, part)
    names = [name for name, _ in net.named_parameters()]
    assert names[0] == "_fsdp_wrapped_module._flat_param", names
    with FSDP.summon_full_params(net):
        expected = {name: p.shape for name, p in Net().named_parameters()}
        assert {name: p.shape for name, p in net.named_parameters()} == expected
        with torch.no_grad():
            net.module.norm.bias.fill_(3.0)
    assert net.state_dict()["norm.bias"].tolist() == [3.0] * 7
    with FSDP.summon_full_params(net, writeback=False), torch.no_grad():
        net.module.norm.bias.fill_(4.0)
    assert net.state_dict()["norm.bias"].tolist() == [3.0] * 7


def synchronized() -> None:
    """All processes begin with the values of rank 0."""
    torch.manual_seed(rank)
    net = FSDP(Net(), auto_wrap_policy=BLOCKS, sync_module_states=True)
    torch.manual_seed(0)
    for name, value in Net().state_dict().items():
        assert torch.equal(net.state_dict()[name], value), name


def saved_on_rank_0() -> None:
    net = FSDP(Net(), auto_wrap_policy=BLOCKS)
    opt = optimizer_of(net.parameters())
    steps(net, opt, batches(1))
    full, optim = fsdp.FullStateDictConfig(True, True), fsdp.FullOptimStateDictConfig(True, True)
    with FSDP.state_dict_type(net, fsdp.StateDictType.FULL_STATE_DICT, full, optim):
        assert bool(net.state_dict()) == (rank == 0)
        state = FSDP.optim_state_dict(net, opt)
        assert bool(state) == (rank == 0)
        again = FSDP.optim_state_dict_to_load(net, opt, state)
    for number, values in opt.state_dict()["state"].items():
        assert torch.equal(values["exp_avg"], again["state"][number]["exp_avg"])


def checkpoint_functions() -> None:
    """get_state_dict and set_state_dict of torch.distributed.checkpoint."""
    states = importlib.import_module(f"{library}.distributed.checkpoint.state_dict")
    for options in (None, states.StateDictOptions(full_state_dict=True, cpu_offload=True,
                                                  broadcast_from_rank0=True)):
        for own in (False, True):
            net = FSDP(Net(), auto_wrap_policy=BLOCKS, use_orig_params=own)
            opt = optimizer_of(net.parameters())
            steps(net, opt, batches(2))
            model, optim = states.get_state_dict(net, opt, options=options)
            assert bool(model) == bool(optim) == (options is None or rank == 0)
            again = FSDP(Net(), auto_wrap_policy=BLOCKS, use_orig_params=own)
            other = optimizer_of(again.parameters())
            states.set_state_dict(again, other, model_state_dict=model, optim_state_dict=optim,
                                  options=options)
            assert steps(net, opt, batches(2)) == steps(again, other, batches(2))


def initial_states() -> None:
    with torch.device("meta"):
        lazy = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5))
    net = FSDP(lazy, device_id=CPU)
    assert net(torch.ones(2, 4)).shape == (2, 5)
    ignored = nn.Linear(3, 3)
    net = FSDP(nn.Sequential(nn.Linear(3, 3), ignored), ignored_states=[ignored],
               device_id=CPU)
    assert ignored.weight.shape == (3, 3) and ignored.weight.is_leaf
    net(torch.ones(1, 3)).sum().backward()
    assert ignored.weight.grad is not None


def checkpoints() -> None:
    """States move between sharded models and one process."""
    for own in (False, True):
        net, opt, alone = train("checkpoint", use_orig_params=own)
        state, optim = net.state_dict(), copy.deepcopy(FSDP.optim_state_dict(net, opt))
        plain = optimizer_of(alone.parameters())
        for x, y in batches(1, True):
            loss_of(alone, x, y).backward()
            plain.step()
        assert set(optim["state"]) == {name for name, _ in alone.named_parameters()}
        assert optim["param_groups"][0]["lr"] == 0.02
        for name, parameter in alone.named_parameters():
            assert optim["state"][name]["exp_avg"].shape == parameter.shape
            assert optim["state"][name]["step"].item() == STEPS
        torch.manual_seed(5)
        again = FSDP(Net(), auto_wrap_policy=BLOCKS, use_orig_params=own, device_id=CPU)
        again.load_state_dict(state)
        other = optimizer_of(again.parameters())
        other.load_state_dict(FSDP.optim_state_dict_to_load(again, other, optim))
        if library == "torch" and own:  # on the CPU it takes exp_avg_sq for exp_avg then
            continue
        data = batches(8)[STEPS:]
        first, second = steps(net, opt, data), steps(again, other, data)
        assert first == second, (first, second)


strategies()
options()
shapes()
initial_states()
checkpoints()
if library != "torch":  # which wants a GPU for these
    synchronized()
    saved_on_rank_0()
    checkpoint_functions()
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    print(json.dumps(losses), flush=True)
