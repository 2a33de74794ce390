"""Trains a model with parallel styles; rank 0 prints the losses as JSON.

The first argument is the library. The losses are those of training in one process.
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import sys
import warnings
from typing import Any

library = sys.argv[1] if len(sys.argv) > 1 else "flambeau"
torch = importlib.import_module(library)
nn, F, dist = torch.nn, torch.nn.functional, torch.distributed
tensors = importlib.import_module(f"{library}.distributed.tensor")
parallel = importlib.import_module(f"{library}.distributed.tensor.parallel")
meshes = importlib.import_module(f"{library}.distributed.device_mesh")
Shard, Replicate = tensors.Shard, tensors.Replicate
warnings.filterwarnings("ignore")
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
mesh = meshes.init_device_mesh("cpu", (size,))
losses: dict[str, list[float]] = {}


class Net(nn.Module):
    """An embedding, a normalized block of two layers, and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.out = nn.Linear(8, 12, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.out(x)


def train(net: Any, name: str, with_loss: bool = False) -> None:
    """Six steps of Adam on tokens that all processes have."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(1)
    losses[name] = []
    for _ in range(6):
        tokens = torch.randint(12, (4, 6), generator=generator)
        logits = net(tokens).flatten(0, 1)
        target = tokens.roll(1, 1).flatten()
        if with_loss:
            with parallel.loss_parallel():
                loss = F.cross_entropy(logits, target)
                loss.backward()
        else:
            loss = F.cross_entropy(logits, target)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = loss.full_tensor() if hasattr(loss, "full_tensor") else loss
        losses[name].append(loss.item())


torch.manual_seed(0)
model = Net()
train(copy.deepcopy(model), "one process")
Colwise, Rowwise = parallel.ColwiseParallel, parallel.RowwiseParallel
plans = {
    "columns and rows": {"up": Colwise(), "down": Rowwise()},
    "embedding by columns": {
        "embedding": Colwise(output_layouts=Replicate()), "up": Colwise(), "down": Rowwise(),
        "out": Colwise(output_layouts=Replicate())},
    "embedding by rows": {
        "embedding": Rowwise(input_layouts=Replicate()), "up": Colwise(), "down": Rowwise()},
    "sequence": {
        "embedding": Rowwise(
            input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
        "norm": parallel.SequenceParallel(),
        "up": parallel.ColwiseParallel(input_layouts=Shard(1)),
        "down": Rowwise(output_layouts=Shard(1), use_local_output=False),
        "out": Colwise(input_layouts=Shard(1), output_layouts=Replicate())},
    "loss": {"up": Colwise(), "down": Rowwise(), "out": Colwise(use_local_output=False)},
}
for name, plan in plans.items():
    net = parallel.parallelize_module(copy.deepcopy(model), mesh, plan)
    if name == "sequence":  # no layer follows that could average the gradient of its scale
        assert "S(1)" in str(net.norm(net.embedding(torch.zeros(2, 4, dtype=torch.int64)))._spec)
    train(net, name, with_loss=name == "loss")
    difference = max(abs(a - b) for a, b in zip(losses[name], losses["one process"], strict=True))
    assert difference < 1e-5, (name, losses[name], losses["one process"])
if rank == 0:
    print(json.dumps(losses))
dist.barrier()
dist.destroy_process_group()
