"""Point-to-point communication: tensors from one process to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.inplace import bump
from ..tensor import Tensor
from .collective_launch import Destination, refuse_compilation, require_tensor, source_array
from .process_group import NON_MEMBER, ProcessGroup, rank_in, require_member
from .work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _find_destination(pg: ProcessGroup, dst: int | None, group_dst: int | None, kind: str) -> int:
    peer = rank_in(pg, dst, group_dst)
    if peer == pg.rank():
        raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of "
                         "the current process.")
    return peer


def _start_send(tensor: Tensor, dst: int | None, group: Any, tag: int, group_dst: int | None,
                is_async: bool) -> Work | None:
    require_tensor(tensor, "tensor")
    if group == NON_MEMBER:
        return None
    pg = require_member(group)
    refuse_compilation("send")
    peer = _find_destination(pg, dst, group_dst, "destination")
    source, engine = source_array(tensor), pg._engine
    return pg._communicator.run(
        lambda: engine.send(source, peer, tag), is_async, [tensor], ("send", peer, tag)
    )


def _start_receive(tensor: Tensor, src: int | None, group: Any, tag: int, group_src: int | None,
                   is_async: bool) -> tuple[Work | None, list[int]]:
    require_tensor(tensor, "tensor")
    if group == NON_MEMBER:
        return None, [-1]
    pg = require_member(group)
    refuse_compilation("recv")
    anybody = src is None and group_src is None
    peer = None if anybody else _find_destination(pg, src, group_src, "source")
    target, engine, sender = Destination(tensor), pg._engine, [-1]

    def call() -> None:
        sender[0] = engine.receive(target.array, peer, tag)
        target.settle()

    bump(tensor)
    work = pg._communicator.run(call, is_async, [tensor], ("receive", peer, tag))
    return work, sender


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
         group_dst: int | None = None) -> None:
    """Send a tensor to process `dst`, which receives it with the same tag."""
    _start_send(tensor, dst, group, tag, group_dst, is_async=False)


def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
          group_dst: int | None = None) -> Work | None:
    """Start a `send`. The tensor must not change until the Work is done."""
    return _start_send(tensor, dst, group, tag, group_dst, is_async=True)


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
         group_src: int | None = None) -> int:
    """Receive a tensor from process `src` (None: any, MPI only); return the sender's rank."""
    _, sender = _start_receive(tensor, src, group, tag, group_src, is_async=False)
    return sender[0] if sender[0] < 0 else require_member(group)._ranks[sender[0]]


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
          group_src: int | None = None) -> Work | None:
    """Start a `recv`."""
    work, _ = _start_receive(tensor, src, group, tag, group_src, is_async=True)
    if work is not None and src is not None:
        work._source = src
    return work


class P2POp:
    """A send or receive for `batch_isend_irecv`. `op` is isend or irecv."""

    def __init__(
        self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: Any = None,
        tag: int = 0, group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        require_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        pg = require_member(group)
        self.group_peer = rank_in(pg, peer, group_peer)
        self.peer = pg._ranks[self.group_peer]

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, group={self.group}, peer={self.peer}, tag={self.tag})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several sends and receives; return a Work for each."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(x, P2POp) for x in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type "
                         "``torch.distributed.P2POp``.")
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv: the list of operations is empty")
    started = []
    for operation in p2p_op_list:
        peer = {"group_dst" if operation.op is isend else "group_src": operation.group_peer}
        work = operation.op(operation.tensor, group=operation.group, tag=operation.tag, **peer)
        if work is not None:
            started.append(work)
    return started
