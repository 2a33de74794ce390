"""Runs functions of local parts on two processes; rank 0 prints values and errors as JSON.

The first argument is the library.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

library = sys.argv[1] if len(sys.argv) > 1 else "flambeau"
torch = importlib.import_module(library)
dist = torch.distributed
tensors = importlib.import_module(f"{library}.distributed.tensor")
local_map = importlib.import_module(f"{library}.distributed.tensor.experimental").local_map
Partial, Replicate, Shard = tensors.Partial, tensors.Replicate, tensors.Shard
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
mesh = torch.distributed.init_device_mesh("cpu", (dist.get_world_size(),))
seen: dict[str, Any] = {}


def distribute(values: Any, placement: Any) -> Any:
    return tensors.distribute_tensor(values.requires_grad_(), mesh, [placement])


w = distribute(torch.arange(24.0).reshape(6, 4), Shard(1))
x = distribute(torch.arange(8.0).reshape(4, 2), Shard(0))
multiply = local_map(torch.mm, [Partial()], ([Shard(1)], [Shard(0)]))
product = multiply(w, x)
product.redistribute(placements=[Replicate()]).to_local().square().sum().backward()
seen["product"] = product.full_tensor().tolist()
seen["placements"] = str(product.placements)
seen["gradients"] = [w.grad.full_tensor().tolist(), x.grad.full_tensor().tolist()]


@local_map(out_placements=([Shard(0)], None), redistribute_inputs=True,
           in_placements=([Shard(0)], None))
def scale(part: Any, factor: float) -> tuple[Any, int]:
    return part * factor, part.shape[0]


tripled, rows = scale(x.detach().redistribute(placements=[Replicate()]), 3.0)
seen["tripled"] = [tripled.full_tensor().tolist(), str(tripled.placements), rows]
seen["plain"] = multiply(torch.ones(2, 3), torch.ones(3, 1)).tolist()
for name, call in {
    "other placements": lambda: multiply(x, w),
    "too few placements": lambda: local_map(torch.mm, [Partial()], ([Shard(1)],))(w, x),
    "no placements": lambda: local_map(torch.mm, [Partial()], (None, [Shard(0)]))(w, x),
    "more results": lambda: local_map(lambda a: (a, a), [Shard(0)])(x),
    "a number": lambda: local_map(lambda a: 1, [Shard(0)])(x),
}.items():
    try:
        call()
    except (AssertionError, ValueError) as error:
        seen[name] = [type(error).__name__, str(error)[:7], str(error)[-40:]]
if dist.get_rank() == 0:
    print(json.dumps(seen))
dist.barrier()
dist.destroy_process_group()
