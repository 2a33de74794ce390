"""Trains with fully_shard in several ways; rank 0 prints the losses as JSON.

The first argument is the library. Every way has the losses of one process on all the data.
"""

from __future__ import annotations

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
nn, F, dist = torch.nn, torch.nn.functional, torch.distributed
fsdp = importlib.import_module(f"{library}.distributed.fsdp")
tensors = importlib.import_module(f"{library}.distributed.tensor")
parallel = importlib.import_module(f"{library}.distributed.tensor.parallel")
meshes = importlib.import_module(f"{library}.distributed.device_mesh")
checkpoint = importlib.import_module(f"{library}.utils.checkpoint").checkpoint
fully_shard, DTensor = fsdp.fully_shard, tensors.DTensor
warnings.filterwarnings("ignore")
torch.set_num_threads(1)
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
losses: dict[str, list[float]] = {}
STEPS, ROWS = 5, 4


class Block(nn.Module):
    """An attention-free transformer block; `recomputes` runs it again in backward."""

    def __init__(self, width: int, recomputes: bool) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)
        self.recomputes = recomputes

    def inner(self, x: Any) -> Any:
        return self.down(F.gelu(self.up(self.norm(x))))

    def forward(self, x: Any) -> Any:
        return x + (checkpoint(self.inner, x, use_reentrant=False) if self.recomputes
                    else self.inner(x))


class Net(nn.Module):
    """Blocks between an embedding and logits with the same weight."""

    def __init__(self, recomputes: bool = False, width: int = 7) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, width)
        self.blocks = nn.ModuleList([Block(width, recomputes) for _ in range(3)])
        self.out = nn.Linear(width, 11, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def batches(share: slice) -> Any:
    """The tokens of each step, of some processes."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        tokens = torch.randint(11, (ROWS * size, 5), generator=generator)
        yield tokens[share]


def train(net: Any, name: str, optimizer: Any, share: slice, clips: bool = False,
          passes: int = 1) -> Any:
    """Train; append the losses, averaged over the processes. `passes`: backwards per step."""
    losses[name] = []
    for tokens in batches(share):
        total = 0.0
        for k, part in enumerate(tokens.chunk(passes)):
            if passes > 1:
                net.set_requires_gradient_sync(k == passes - 1)
            loss = F.cross_entropy(net(part).flatten(0, 1).float(), part.roll(1, 1).flatten())
            (loss / passes).backward()
            total += loss.item() / passes
        if clips:
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            if isinstance(norm, DTensor):
                norm.full_tensor()
        optimizer.step()
        optimizer.zero_grad()
        value = torch.tensor(total)
        dist.all_reduce(value)
        losses[name].append(value.item() / size)
    return net


ALL, OWN = slice(None), slice(rank * ROWS, (rank + 1) * ROWS)
Adam = functools.partial(torch.optim.AdamW, lr=0.05)
SGD = functools.partial(torch.optim.SGD, lr=0.5, momentum=0.9)


def shard(net: Any, **options: Any) -> Any:
    """Shard blocks and root."""
    for block in net.blocks:
        fully_shard(block, **options)
    return fully_shard(net, **options)


def build(**options: Any) -> Any:
    torch.manual_seed(0)
    return Net(**options)


def run(name: str, like: str, optimizer: Any = Adam, net: Any = None, tolerance: float = 2e-5,
        training: dict[str, Any] | None = None, share: slice = OWN, **options: Any) -> Any:
    """Train a sharded model and compare its losses with those of one process."""
    net = shard(build() if net is None else net, **options)
    net = train(net, name, optimizer(net.parameters()), share, **(training or {}))
    difference = max(abs(a - b) for a, b in zip(losses[name], losses[like], strict=True))
    assert difference < tolerance, (name, losses[name], losses[like])
    return net


reference = build()
train(reference, "one process", Adam(reference.parameters()), ALL)
reference_clipped = build()
train(reference_clipped, "one process, clipped", SGD(reference_clipped.parameters()), ALL, True)

net = run("adam", "one process")
for (key, parameter), want in zip(net.named_parameters(), reference.parameters(), strict=True):
    assert isinstance(parameter, DTensor), key
    torch.testing.assert_close(parameter.full_tensor(), want, rtol=1e-3, atol=1e-4)
assert isinstance(net, fsdp.FSDPModule)
assert type(net).__name__ == "FSDPNet"
assert str(net.out.weight.placements) == "(Shard(dim=0),)"
run("kept whole", "one process", reshard_after_forward=False)
run("clipped", "one process, clipped", SGD, training={"clips": True})
run("recomputed", "one process", net=build(recomputes=True))
run("accumulated", "one process", training={"passes": 2})
run("bfloat16", "one process", tolerance=0.3,
    mp_policy=fsdp.MixedPrecisionPolicy(torch.bfloat16, torch.float32))

state = net.state_dict()
assert all(isinstance(value, DTensor) for value in state.values())
again = shard(build())
again.load_state_dict(state)
tokens = next(iter(batches(ALL)))
assert torch.equal(again(tokens), net(tokens))
with torch.no_grad():
    assert torch.equal(again(tokens), net(tokens))

again.unshard()
assert not isinstance(again.out.weight, DTensor)
again.reshard()
assert isinstance(again.out.weight, DTensor)

frozen = build()
frozen.blocks[0].requires_grad_(False)
plain = copy.deepcopy(frozen)
train(plain, "one process, frozen", Adam([p for p in plain.parameters() if p.requires_grad]), ALL)
run("frozen", "one process, frozen", lambda parameters: Adam(
    [p for p in parameters if p.requires_grad]), net=frozen)

if size == 4:
    mesh = meshes.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    net = run("hybrid", "one process", mesh=mesh)
    assert str(net.out.weight.placements) == "(Replicate(), Shard(dim=0))"
    mesh = meshes.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    wide = functools.partial(build, width=8)
    reference = wide()
    train(reference, "one process, wide", Adam(reference.parameters()), ALL)
    net = wide()
    for block in net.blocks:
        parallel.parallelize_module(block, mesh["tp"], {
            "up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()})
    half = slice(mesh.get_local_rank("dp") * 2 * ROWS, (mesh.get_local_rank("dp") + 1) * 2 * ROWS)
    net = run("tensor parallel", "one process, wide", net=net, share=half, mesh=mesh["dp"])
    assert net.blocks[0].up.weight.full_tensor().shape == (24, 8)
    for parameter, want in zip(net.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(parameter.full_tensor(), want, rtol=1e-3, atol=1e-3)
if rank == 0:
    print(json.dumps(losses))
dist.barrier()
dist.destroy_process_group()
