"""MPIEngine: collectives with mpi4py between processes started by mpiexec."""

from __future__ import annotations

import functools
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import DistBackendError
from ..reduce_op import ReduceOp
from .engine import Array, Engine, view_as_bytes

# Polls of a request before the thread sleeps between polls. MPI progresses only inside calls, so
# short exchanges are polled to completion, while long waits must not occupy a core.
_SPINS = 300
_MIN_SLEEP_S, _MAX_SLEEP_S = 2e-5, 1e-4
# From this size on, wait for all members in a barrier (with sleeps), then move data in one call.
_GATHERED_MIN_BYTES = 1 << 15


def is_mpi_installed() -> bool:
    """Return whether mpi4py is installed, without loading it."""
    return importlib.util.find_spec("mpi4py") is not None


@functools.cache
def load_mpi() -> Any:
    """Load mpi4py.MPI. Raises ModuleNotFoundError naming the pip extra if it is missing."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        failure = ModuleNotFoundError(
            "torch.distributed with backend='mpi' needs MPI: pip install 'flambeau[mpi]'",
            name="mpi4py",
        )
        failure.add_note(str(error))
        raise failure from None
    _abort_on_errors(MPI)
    return MPI


def _abort_on_errors(mpi: Any) -> None:
    """Make an uncaught exception abort all processes: they would wait for this one forever."""
    before = sys.excepthook

    def report_and_abort(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        before(kind, error, trace)
        sys.stderr.flush()
        if mpi.COMM_WORLD.size > 1 and not mpi.Is_finalized():
            mpi.COMM_WORLD.Abort(1)

    sys.excepthook = report_and_abort


class MPIEngine(Engine):
    """An MPI communicator. Calls poll, so timeouts and Ctrl-C can end them."""

    name = "mpi"
    reduced_dtypes = frozenset("bBhHiIlLqQfdFD")
    any_source = calls_are_fast = True

    def __init__(self, communicator: Any, timeout_s: float) -> None:
        super().__init__(communicator.rank, communicator.size, timeout_s)
        self._comm, self._mpi = communicator, load_mpi()
        mpi = self._mpi
        self._ops = {
            ReduceOp.SUM: mpi.SUM, ReduceOp.PRODUCT: mpi.PROD, ReduceOp.MIN: mpi.MIN,
            ReduceOp.MAX: mpi.MAX, ReduceOp.BAND: mpi.BAND, ReduceOp.BOR: mpi.BOR,
            ReduceOp.BXOR: mpi.BXOR,
        }

    def subgroup(self, ranks: Sequence[int], number: int) -> MPIEngine:
        """Create an engine of some members. All of them must call it."""
        all_ranks, members = self._comm.Get_group(), None
        try:
            members = all_ranks.Incl(list(ranks))
            return MPIEngine(self._comm.Create_group(members, number), self.timeout_s)
        finally:
            all_ranks.Free()
            if members is not None:
                members.Free()

    def _finish(self, request: Any, status: Any = None) -> None:
        """Poll a request until it completes. Raises DistBackendError on timeout."""
        test = request.Test
        for _ in range(_SPINS):
            if test(status):
                return
        end_s, sleep_s = time.monotonic() + self.timeout_s, _MIN_SLEEP_S
        while not test(status):
            if time.monotonic() > end_s:
                failure = DistBackendError(
                    f"[Rank {self.rank}] Timed out waiting {self.timeout_s:g} s for the other "
                    "ranks of an MPI group"
                )
                failure.add_note("A rank is slow, gone, or called other collectives: "
                                 "torch.distributed.monitored_barrier() names it.")
                raise failure
            time.sleep(sleep_s)
            sleep_s = min(sleep_s * 1.5, _MAX_SLEEP_S)

    def _run_collective(
        self, size_bytes: int, start: Callable[[], Any], do: Callable[[], Any]
    ) -> None:
        if size_bytes < _GATHERED_MIN_BYTES:
            self._finish(start())
        else:
            self._finish(self._comm.Ibarrier())
            do()

    def all_reduce(self, array: Array, op: ReduceOp) -> None:
        comm, place, operation = self._comm, self._mpi.IN_PLACE, self._ops[op]
        if array.nbytes < _GATHERED_MIN_BYTES:
            self._finish(comm.Iallreduce(place, array, operation))
        else:
            self._finish(comm.Ibarrier())
            comm.Allreduce(place, array, operation)

    def reduce(self, array: Array, op: ReduceOp, root: int) -> None:
        at_root = self.rank == root
        source, target = (self._mpi.IN_PLACE, array) if at_root else (array, None)
        comm, operation = self._comm, self._ops[op]
        self._run_collective(
            array.nbytes,
            lambda: comm.Ireduce(source, target, operation, root),
            lambda: comm.Reduce(source, target, operation, root),
        )

    def broadcast(self, array: Array, root: int) -> None:
        data, comm = view_as_bytes(array), self._comm
        self._run_collective(
            data.nbytes, lambda: comm.Ibcast(data, root), lambda: comm.Bcast(data, root)
        )

    def all_gather(self, output: Array, array: Array) -> None:
        comm = self._comm
        if array.dtype.char not in self.reduced_dtypes:  # MPI may not support the dtype
            output, array = view_as_bytes(output), view_as_bytes(array)
        if output.nbytes < _GATHERED_MIN_BYTES:
            self._finish(comm.Iallgather(array, output))
        else:
            self._finish(comm.Ibarrier())
            comm.Allgather(array, output)

    def gather(self, output: Array | None, array: Array, root: int) -> None:
        target = None if output is None else view_as_bytes(output)
        source, comm = view_as_bytes(array), self._comm
        self._run_collective(
            source.nbytes * self.size,
            lambda: comm.Igather(source, target, root),
            lambda: comm.Gather(source, target, root),
        )

    def scatter(self, array: Array, parts: Sequence[Array] | None, root: int) -> None:
        source = None if parts is None else np.concatenate([view_as_bytes(part) for part in parts])
        target, comm = view_as_bytes(array), self._comm
        self._run_collective(
            target.nbytes * self.size,
            lambda: comm.Iscatter(source, target, root),
            lambda: comm.Scatter(source, target, root),
        )

    def all_to_all(self, outputs: Sequence[Array], inputs: Sequence[Array]) -> None:
        sent = [part.nbytes for part in inputs]
        received = [part.nbytes for part in outputs]
        source = np.concatenate([view_as_bytes(part) for part in inputs])
        target = np.empty(sum(received), np.uint8)
        self._finish(self._comm.Ibarrier())
        self._comm.Alltoallv([source, sent], [target, received])
        start = 0
        for part in outputs:
            np.copyto(view_as_bytes(part), target[start : start + part.nbytes])
            start += part.nbytes

    def barrier(self) -> None:
        self._finish(self._comm.Ibarrier())

    def send(self, array: Array, peer: int, tag: int) -> None:
        self._finish(self._comm.Isend(view_as_bytes(array), peer, tag))

    def receive(self, array: Array, peer: int | None, tag: int) -> int:
        source = self._mpi.ANY_SOURCE if peer is None else peer
        status = self._mpi.Status()
        self._finish(self._comm.Irecv(view_as_bytes(array), source, tag), status)
        return int(status.Get_source())

    def close(self) -> None:
        if not self._mpi.Is_finalized():
            self._comm.Free()
