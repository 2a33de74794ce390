"""Runs operators on DTensors in several placements; rank 0 prints the results' placements as JSON.

The first argument is the library. With flambeau, values and gradients are compared with those of
plain tensors.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from typing import Any

library = sys.argv[1] if len(sys.argv) > 1 else "flambeau"
torch = importlib.import_module(library)
F, dist = torch.nn.functional, torch.distributed
tensors = importlib.import_module(f"{library}.distributed.tensor")
DTensor, Partial, Replicate, Shard = (
    tensors.DTensor, tensors.Partial, tensors.Replicate, tensors.Shard)
warnings.filterwarnings("ignore")
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
mesh = importlib.import_module(f"{library}.distributed.device_mesh").init_device_mesh(
    "cpu", (size,) if size < 4 else (2, size // 2))

# `x` is (8, 4), `v` (8,), `s` (8, 4, 6), `w` (4, 6), `u` (6, 4) and `i` (8, 2) of indices below 4.
EXPRESSIONS = """
x + 1; x * 2; x / 2; -x; x.relu(); x.exp(); x.abs(); x > 0; x.clamp(-1, 1); x.pow(2); x.isnan()
torch.where(x > 0, x, -x); x.masked_fill(x > 0, 0.0); F.gelu(x); F.silu(x); x.double(); x.clone()
x + v.unsqueeze(1); x * x.detach(); x - x.sum(0); 1 - x; x.lerp(x * 2, 0.5); x.sigmoid()
x.sum(); x.sum(0); x.sum(1, keepdim=True); x.mean(); x.mean(0); x.amax(1); x.max(); x.max(0)[0]
x.min(1)[0]; x.prod(0); x.argmax(0); x.std(); x.var(0); x.norm(); torch.linalg.vector_norm(x, 2, 0)
torch.linalg.vector_norm(x, 1); x.all(0); x.logsumexp(1); x.softmax(0); x.softmax(1); x.median()
F.log_softmax(x, 1); x.cumsum(0); x.cumsum(1); x.sort(0)[0]; x.topk(2, 1)[0]; x.kthvalue(1)[0]
x.t(); x.view(32); x.view(8, 2, 2); x.view(2, 4, 4); x.reshape(-1); x.unsqueeze(0); x.squeeze()
x[0]; x[1:3]; x[:, 1:3]; x[:, 0]; x[None]; x.chunk(2, 0)[1]; x.chunk(2, 1)[1]; x.expand(2, 8, 4)
x.flatten(); x.movedim(0, 1); x.split([1, 3], 1)[1]; x.narrow(0, 0, 2); x.tril(); x.flip(0)
x.roll(1); x.repeat(2, 1); torch.cat([x, x], 0); torch.cat([x, x], 1); torch.stack([x, x])
s.permute(2, 0, 1); s.transpose(0, 2); s.view(32, 6); s.view(8, 24); s.flatten(0, 1); s.sum((0, 2))
torch.zeros_like(x); torch.ones_like(x); x.new_zeros(3, 3); x.new_ones(8, 4); x.diagonal()
x @ w; u @ x.t(); w @ u; s @ u; s @ u.t().t(); torch.bmm(s, s.transpose(1, 2)); x.t() @ x
torch.addmm(w.sum(0), x, w); F.linear(x, u); F.linear(s, u.t()); F.linear(s, w, v[:4]); x @ w[:, 0]
torch.einsum('ij,kj->ik', x, x); s.matmul(u); torch.einsum('bij,jk->bik', s, u)
F.layer_norm(x, (4,)); F.layer_norm(s, (6,), w[0], w[1]); F.rms_norm(x, (4,), w[:, 0])
F.embedding(i, w); x.gather(1, i); x.index_select(0, i[:, 0]); F.one_hot(i, 5); x[i[:, 0]]
F.cross_entropy(x, i[:, 0]); F.cross_entropy(x, i[:, 0], reduction='none')
F.cross_entropy(x, i[:, 0], reduction='sum'); F.nll_loss(x, i[:, 0]); F.mse_loss(x, x.detach() + 1)
F.cross_entropy(x, i[:, 0], label_smoothing=0.1); F.cross_entropy(x, i[:, 0], ignore_index=1)
F.binary_cross_entropy_with_logits(x, x.detach().sigmoid()); F.mse_loss(x, x * 2, reduction='none')
F.smooth_l1_loss(x, x.detach() * 2); F.l1_loss(x, x.detach() * 2); F.dropout(x, 0.5, False)
F.scaled_dot_product_attention(s[None], s[None], s[None]); F.avg_pool1d(s, 2); F.conv1d(s, k)
torch.add(x.detach(), 1, out=torch.zeros_like(x.detach()))
torch.mul(x.detach(), v.detach().unsqueeze(1), out=torch.zeros_like(x.detach()))
F.conv1d(s, k, k.sum((1, 2))).relu(); F.max_pool1d(s, 2); F.batch_norm(s, None, None, training=True)
"""
NAMES = [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(";")]
INTEGERS = ("i",)


def create_plain() -> dict[str, Any]:
    """The operands as plain tensors."""
    generator = torch.Generator().manual_seed(0)
    values: dict[str, Any] = {
        name: torch.randn(shape, generator=generator)
        for name, shape in (("x", (8, 4)), ("v", (8,)), ("s", (8, 4, 6)), ("w", (4, 6)),
                            ("u", (6, 4)), ("k", (3, 4, 2)))
    }
    return values | {"i": torch.randint(4, (8, 2), generator=generator)}


def distribute(plain: Any, placements: Any) -> Any:
    """A leaf in the placements, sums as rank-dependent summands."""
    if not any(isinstance(p, Partial) for p in placements):
        return tensors.distribute_tensor(plain, mesh, placements)
    summands, local = 1, plain
    for axis, placement in enumerate(placements):
        if isinstance(placement, Partial):
            summands *= mesh.size(axis)
        else:
            local = tensors.distribute_tensor(
                plain, mesh, [placement if a == axis else Replicate() for a in range(mesh.ndim)]
            ).to_local()
    return DTensor.from_local(local / summands, mesh, placements)


def create_operands(placement: tuple[Any, ...]) -> dict[str, Any]:
    """The operands as DTensors; only `x` and `s` have the placements, the others are whole."""
    whole = [Replicate()] * mesh.ndim
    return {
        name: distribute(value, placement if name in ("x", "s") else whole)
        .requires_grad_(name not in INTEGERS)
        for name, value in create_plain().items()
    }


def show(value: Any) -> Any:
    return str(value.placements) if isinstance(value, DTensor) else repr(value)


def compare(expression: str, placement: Any, result: Any, operands: dict[str, Any]) -> None:
    """Fails where values or gradients are not those of plain tensors."""
    plain = create_plain()
    for name, value in plain.items():
        value.requires_grad_(name not in INTEGERS)
    expected = eval(expression, globals() | plain)
    where = f"{expression} in {placement}"
    if not isinstance(expected, torch.Tensor):
        assert result == expected, where
        return
    torch.testing.assert_close(result.full_tensor(), expected, msg=lambda m: f"{where}\n{m}")
    if not expected.requires_grad or expected.dtype is torch.float64:
        return
    (expected * expected).sum().backward()
    (result * result).sum().backward()
    for name in (n for n in plain if n not in INTEGERS):
        want, g = plain[name].grad, operands[name].grad
        assert (want is None) == (g is None), f"{where}: gradient of {name}"
        if want is not None:
            torch.testing.assert_close(g.full_tensor(), want, rtol=1e-4, atol=1e-5,
                                       msg=lambda m, n=name: f"{where}: gradient of {n}\n{m}")


seen: dict[str, str] = {}
PLACEMENTS: list[tuple[Any, ...]] = [(Replicate(),), (Shard(0),), (Shard(1),), (Partial(),)]
if mesh.ndim == 2:
    NAMES = NAMES[::8]
    PLACEMENTS = [(Shard(0), Shard(0)), (Shard(1), Shard(0)), (Partial(), Shard(1))]
for placement in PLACEMENTS:
    for expression in NAMES:
        operands = create_operands(placement)
        try:
            result = eval(expression, globals() | operands)
        except (NotImplementedError, RuntimeError) as error:
            if library == "flambeau":
                raise RuntimeError(f"{expression} in {placement}") from error
            seen[f"{expression} in {placement}"] = type(error).__name__
            continue
        seen[f"{expression} in {placement}"] = show(result)
        if library == "flambeau":
            compare(expression, placement, result, operands)
if rank == 0:
    print(json.dumps(seen))
dist.barrier()
dist.destroy_process_group()
