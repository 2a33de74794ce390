"""How context parallelism cuts a sequence over processes, and puts it together again."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .... import ops
from ....autograd.mode import no_grad
from ....tensor import Tensor
from ....tensor import dtypes as types
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import collectives
from ...device_mesh import DeviceMesh

__all__ = [
    "OPTIONS", "HeadTailLoadBalancer", "LoadBalancer", "RotateMethod", "context_parallel_shard",
    "context_parallel_unshard", "create_default_balancer", "cut_buffers",
]


class RotateMethod(enum.Enum):
    """How keys and values travel. Both values gather them here."""

    ALL_TO_ALL = enum.auto()
    ALL_GATHER = enum.auto()


@dataclass
class _Options:
    """Settings of context parallelism, under PyTorch's names; `convert_to_f32` has no effect."""

    convert_to_f32: bool = True
    enable_load_balance: bool = True
    rotate_method: RotateMethod = RotateMethod.ALL_GATHER


OPTIONS = _Options()


class LoadBalancer(ABC):
    """An order of the sequence in which each process's part takes about the same work."""

    @abstractmethod
    def _generate_indices(self, restore: bool = False) -> Tensor | None:
        """Return the order, (1, length) or (batch, length), or with `restore` its inverse."""


class HeadTailLoadBalancer(LoadBalancer):
    """Give each process a piece near the start of the sequence and one as near its end.

    Of 2 n pieces, process i gets pieces i and 2 n - 1 - i: under a causal mask all do equal work.

    >>> from flambeau.distributed.tensor.experimental._attention import _HeadTailLoadBalancer
    >>> _HeadTailLoadBalancer(8, 2, "cpu")._generate_indices()
    tensor([[0, 1, 6, 7, 2, 3, 4, 5]], dtype=torch.int32)

    Source: Llama Team, The Llama 3 Herd of Models, 2024, section 3.3.2.
    """

    def __init__(self, seq_length: int, world_size: int, device: Any) -> None:
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Tensor:
        """Return the order as (1, length), or with `restore` its inverse.

        Raises AssertionError if the sequence has no 2 n equal pieces.
        """
        n = self.world_size
        if self.seq_length % (2 * n):
            raise AssertionError
        pieces = ops.arange(self.seq_length, dtype=types.int32).view(2 * n, -1)
        order = ops.cat([pieces[j] for i in range(n) for j in (i, 2 * n - 1 - i)])
        return (ops.argsort(order) if restore else order).unsqueeze(0)


def create_default_balancer(length: int, size: int, device: Any) -> LoadBalancer | None:
    """Return a head-tail balancer, or None if it is switched off or the length does not fit."""
    fits = OPTIONS.enable_load_balance and length % (2 * size) == 0
    return HeadTailLoadBalancer(length, size, device) if fits else None


def cut_buffers(
    mesh: DeviceMesh, buffers: Sequence[Any], dims: Sequence[int], balancer: LoadBalancer | None,
) -> list[Tensor]:
    """Return this process's part of each buffer, in the order of the balancer."""
    order = balancer._generate_indices() if balancer else None
    _check_order(order, "load balance")
    parts = []
    for buffer, dim in zip(buffers, dims, strict=True):
        if not isinstance(buffer, Tensor):
            raise NotImplementedError(
                f"context parallelism of a {type(buffer).__name__} is not implemented in flambeau")
        if order is not None:
            buffer = _reorder(buffer, dim, order, "rearrange", "load_balance_indices")
        length = buffer.size(dim)
        step = -(-length // mesh.size())
        start = min(mesh.get_local_rank() * step, length)
        parts.append(buffer.narrow(dim, start, min(step, length - start)))
    return parts


def _check_order(order: Tensor | None, name: str) -> None:
    if order is not None and order.ndim != 2:
        raise AssertionError(f"{name} index expects shape (1, seq_len) or (B, seq_len) "
                             f"but got {order.shape}.")


def _reorder(buffer: Tensor, dim: int, order: Tensor, verb: str, name: str) -> Tensor:
    """Return the buffer with its sequence in another order, which may differ by batch."""
    if order.size(1) != buffer.size(dim):
        raise ValueError(
            f"Cannot {verb} buffer: {name} has shape {order.shape}, but axis {dim} of the buffer "
            f"has length {buffer.size(dim)}.")
    if order.size(0) == 1:
        return ops.index_select(buffer, dim, order[0])
    if dim % buffer.ndim == 0 or order.size(0) != buffer.size(0):
        raise ValueError(f"Cannot {verb} buffer: {name} has shape {order.shape}, "
                         f"but buffer has shape {buffer.shape}.")
    axis = dim % buffer.ndim - 1
    return ops.stack([
        ops.index_select(row, axis, indices)
        for row, indices in zip(buffer.unbind(0), order.unbind(0), strict=True)])


def context_parallel_shard(
    mesh: DeviceMesh, buffers: Any, seq_dims: Any, load_balancer: LoadBalancer | None = None,
) -> Any:
    """Return this process's part of each buffer, in containers like those of `buffers`.

    Args:
        mesh: The processes that share the sequences.
        buffers: Tensors in a list or dict. They stay as they are.
        seq_dims: Each buffer's axis of the sequence, in a container of the same structure.
        load_balancer: The order in which the sequence is cut, by default its own.

    Raises ValueError unless there are as many axes as buffers.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from flambeau.distributed.tensor.experimental._attention import _context_parallel_shard
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> _context_parallel_shard(mesh, {"ids": torch.arange(4)}, {"ids": 0})
    {'ids': tensor([0, 1, 2, 3])}
    >>> torch.distributed.destroy_process_group()

    Source: https://docs.pytorch.org/docs/2.13/distributed.tensor.html
    """
    OPTIONS.enable_load_balance = load_balancer is not None
    if len(buffers) != len(seq_dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    flat, structure = tree_flatten(buffers)
    dims = tree_flatten(seq_dims)[0]
    if len(flat) != len(dims):
        raise ValueError("`seq_dims` must have the pytree structure as `buffers`.")
    return tree_unflatten(cut_buffers(mesh, flat, dims, load_balancer), structure)


@no_grad()
def context_parallel_unshard(
    mesh: DeviceMesh, buffers: list[Tensor], seq_dims: list[int],
    load_balancer: LoadBalancer | None = None,
) -> list[Tensor]:
    """Return the whole of each tensor that lies in parts, on every process.

    Args:
        mesh: The processes that share the sequences.
        buffers: This process's parts, as long as those of the others.
        seq_dims: Each buffer's axis of the sequence.
        load_balancer: The balancer that cut them, by default that of `context_parallel`.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from flambeau.distributed.tensor.experimental._attention import context_parallel_unshard
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> context_parallel_unshard(mesh, [torch.arange(4)], [0])
    [tensor([0, 1, 2, 3])]
    >>> torch.distributed.destroy_process_group()

    Source: https://docs.pytorch.org/docs/2.13/distributed.tensor.html
    """
    length = buffers[0].shape[seq_dims[0]] * mesh.size()
    balancer = load_balancer or create_default_balancer(length, mesh.size(), buffers[0].device)
    order = balancer._generate_indices(restore=True) if balancer else None
    _check_order(order, "load balance restore")
    wholes = []
    for buffer, dim in zip(buffers, seq_dims, strict=False):
        parts = [ops.empty_like(buffer).contiguous() for _ in range(mesh.size())]
        collectives.all_gather(parts, buffer.contiguous(), mesh.get_group())
        whole = ops.cat(parts, dim)
        wholes.append(whole if order is None
                      else _reorder(whole, dim, order, "restore", "restore_indices"))
    return wholes
