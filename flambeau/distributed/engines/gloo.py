"""GlooEngine: collectives with Gloo over TCP between processes that meet at a store."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..errors import DistBackendError, DistError, DistStoreError
from ..reduce_op import ReduceOp
from ..rendezvous import note_missing
from ..stores import Store
from .engine import Array, Engine, address_of, view_as_bytes
from .gloo_library import load_gloo
from .interrupts import interruptible

_DTYPES = {
    "b": "glooInt8", "B": "glooUint8", "i": "glooInt32", "I": "glooUint32", "l": "glooInt64",
    "q": "glooInt64", "L": "glooUint64", "Q": "glooUint64", "e": "glooFloat16",
    "f": "glooFloat32", "d": "glooFloat64",
}
_BITWISE = {
    ReduceOp.BAND: np.bitwise_and, ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
}
# Smaller arrays are faster with BCUBE's fewer rounds; for larger ones the ring sends each byte only
# once each way. With no more elements than members, the ring needs few messages, all in flight at
# once.
_RING_MIN_BYTES = 1 << 20
# Up to this size all_gather is an all-to-all of copies, whose messages do not wait for each other.
_COPIED_MAX_BYTES = 1 << 14
_BASE = 2
_POLL_S = 0.002
_INTERNAL_TAG = 0x7FFF_0000  # of sends within collectives; users' tags are smaller


class _Meeting:
    """The store interface that Gloo uses to connect the members.

    Gloo connects with the GIL held, which blocks a store served by this process. So members read
    all addresses first, and the serving member waits until all have.
    """

    def __init__(self, store: Store, size: int) -> None:
        self._store, self._size = store, size
        self._values: dict[str, bytes] = {}

    def set_tcp(self, key: str, data: Sequence[int]) -> None:
        """Publish this process's listening addresses under its rank."""
        self._store.set(key, bytes(value & 0xFF for value in data))

    def get_tcp(self, key: str) -> bytes:
        """Return the addresses of a process. The first call reads all of them."""
        if not self._values:
            keys = [str(rank) for rank in range(self._size)]
            try:
                self._values = dict(zip(keys, self._store.multi_get(keys), strict=True))
            except DistStoreError as error:
                note_missing(error, self._store, keys)
                raise
            readers = self._store.add("readers", 1)
            while self._store.is_served_here and readers < self._size:
                time.sleep(_POLL_S)
                readers = self._store.add("readers", 0)
        return self._values[key]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Do nothing: `get_tcp` waits."""

    def del_keys(self, keys: Sequence[str]) -> None:
        """Do nothing: the store ends with the group."""


def find_local_address(store: Store) -> str:
    """Return the address at which other processes can reach this one."""
    reached = getattr(store, "local_address", None)  # of a TCPStore: the route to rank 0
    if reached:
        return str(reached)
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _create_device(module: Any, store: Store) -> Any:
    """Create a listening device on GLOO_SOCKET_IFNAME or this host's address."""
    attributes = module.transport.tcp.attr(find_local_address(store))
    if interface := os.environ.get("GLOO_SOCKET_IFNAME"):
        attributes = module.transport.tcp.attr()
        attributes.iface = interface.split(",")[0]
    try:
        return module.transport.tcp.CreateDevice(attributes)
    except RuntimeError as error:
        raise DistBackendError(f"Gloo cannot listen: {error}") from None


class GlooEngine(Engine):
    """A full mesh of TCP connections. Sends and receives may run alongside one collective."""

    name = "gloo"
    reduced_dtypes = frozenset(_DTYPES)

    def __init__(self, store: Store, rank: int, size: int, timeout_s: float) -> None:
        super().__init__(rank, size, timeout_s)
        library = load_gloo()
        self._module = module = library.module
        self._context = module.rendezvous.Context(rank, size, _BASE)
        self.calls_are_fast = library.releases_lock
        self._context.setTimeout(timedelta(seconds=timeout_s))
        self._connect(store)
        self._functions: dict[str, Callable[..., None]] = {
            name: library.bind(self._context, name)
            for name in ("allreduce", "reduce", "broadcast", "allgather", "gather", "all_to_all",
                         "barrier", "send", "recv")
        }
        self._types = {char: int(getattr(module, name)) for char, name in _DTYPES.items()}
        self._ring, self._bcube = module.RING, module.BCUBE
        self._ops = {op: int(getattr(module.ReduceOp, op.name)) for op in ReduceOp
                     if hasattr(module.ReduceOp, op.name)}

    def _connect(self, store: Store) -> None:
        meeting = _Meeting(store, self.size)
        self._device = _create_device(self._module, store)
        custom = self._module.rendezvous.CustomStore(meeting)
        try:
            self._context.connectFullMesh(custom, self._device)
        except DistError:
            raise
        except RuntimeError as error:
            raise self._create_failure(error) from None

    def _create_failure(self, error: RuntimeError) -> DistBackendError:
        text = str(error)
        failure = DistBackendError(text)
        if "Timed out" in text or "timed out" in text:
            failure.add_note(
                f"Rank {self.rank} waited {self.timeout_s:g} s for the other ranks: one is slow, "
                "gone, or called other collectives. torch.distributed.monitored_barrier() names "
                "it; "
                "TORCH_DISTRIBUTED_DEBUG=DETAIL compares what the ranks call."
            )
        else:
            failure.add_note("Another rank of the group has ended, or its network failed. Look at "
                             "the first error that any rank printed.")
        return failure

    def _do(self, name: str, *arguments: Any) -> None:
        try:
            with interruptible(self._context.closeConnections):
                self._functions[name](*arguments)
        except RuntimeError as error:
            raise self._create_failure(error) from None

    def all_reduce(self, array: Array, op: ReduceOp) -> None:
        if op in _BITWISE:  # missing in this build of Gloo
            rows = np.empty((self.size, *array.shape), array.dtype)
            self.all_gather(rows, array)
            np.copyto(array, _BITWISE[op].reduce(rows))
            return
        address = address_of(array)
        is_ring = array.nbytes >= _RING_MIN_BYTES or array.size <= self.size
        self._do("allreduce", address, address, array.size, self._types[array.dtype.char],
                 self._ops[op], self._ring if is_ring else self._bcube, 0)

    def reduce(self, array: Array, op: ReduceOp, root: int) -> None:
        if op in _BITWISE:
            self.all_reduce(array, op)
            return
        output = np.empty_like(array)
        self._do("reduce", address_of(array), address_of(output), array.size,
                 self._types[array.dtype.char], self._ops[op], root, 0)
        if self.rank == root:
            np.copyto(array, output)

    def broadcast(self, array: Array, root: int) -> None:
        address = address_of(array)
        self._do("broadcast", address, address, array.nbytes, self._types["B"], root, 0)

    def all_gather(self, output: Array, array: Array) -> None:
        if array.nbytes <= _COPIED_MAX_BYTES:
            copies = np.empty((self.size, array.nbytes), np.uint8)
            copies[:] = view_as_bytes(array)
            self._do("all_to_all", address_of(copies), address_of(output), copies.nbytes,
                     self._types["B"], 0)
            return
        self._do("allgather", address_of(array), address_of(output), array.nbytes,
                 self._types["B"], 0)

    def gather(self, output: Array | None, array: Array, root: int) -> None:
        address = address_of(array) if output is None else address_of(output)
        self._do("gather", address_of(array), address, array.nbytes, self._types["B"], root, 0)

    def scatter(self, array: Array, parts: Sequence[Array] | None, root: int) -> None:
        if self.rank != root:
            self.receive(array, root, _INTERNAL_TAG)
            return
        assert parts is not None
        np.copyto(view_as_bytes(array), view_as_bytes(parts[root]))
        for peer in range(self.size):
            if peer != root:
                self.send(parts[peer], peer, _INTERNAL_TAG)

    def all_to_all(self, outputs: Sequence[Array], inputs: Sequence[Array]) -> None:
        """Exchange in pairs: in round r, ranks that add up to r modulo the size swap parts."""
        np.copyto(view_as_bytes(outputs[self.rank]), view_as_bytes(inputs[self.rank]))
        for turn in range(self.size):
            peer = (turn - self.rank) % self.size
            if peer == self.rank:
                continue
            if self.rank < peer:
                self.send(inputs[peer], peer, _INTERNAL_TAG)
                self.receive(outputs[peer], peer, _INTERNAL_TAG)
            else:
                self.receive(outputs[peer], peer, _INTERNAL_TAG)
                self.send(inputs[peer], peer, _INTERNAL_TAG)

    def barrier(self) -> None:
        self._do("barrier", 0)

    def send(self, array: Array, peer: int, tag: int) -> None:
        self._do("send", address_of(array), array.nbytes, self._types["B"], peer, tag)

    def receive(self, array: Array, peer: int | None, tag: int) -> int:
        if peer is None:
            raise NotImplementedError(
                "torch.distributed.recv with src=None is not implemented in flambeau for Gloo: "
                "name the sender, or use backend='mpi'"
            )
        self._do("recv", address_of(array), array.nbytes, self._types["B"], peer, tag)
        return peer

    def close(self) -> None:
        self._context.closeConnections()
