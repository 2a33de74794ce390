"""ParameterGroup: the parameters of one call of fully_shard, gathered and reduced together."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .... import ops
from ...engines.engine import reduce_array
from ...reduce_op import ReduceOp
from ...work import Work
from .parameter import MeshInfo, ShardedParameter

__all__ = ["ParameterGroup"]


class ParameterGroup:
    """Parameters that one collective gathers, and whose gradients one collective reduces."""

    def __init__(
        self, parameters: list[ShardedParameter], info: MeshInfo, reduce_dtype: Any
    ) -> None:
        self.parameters, self.info, self.reduce_dtype = parameters, info, reduce_dtype
        self.is_unsharded = False
        self.reduces_gradients = self.reduces_over_replicas = True
        self.divide_factor: float | None = None
        self._gathering: tuple[Work, np.ndarray, list[np.ndarray]] | None = None
        self._reducing: tuple[Work, np.ndarray, list[ShardedParameter]] | None = None
        self._unreduced: np.ndarray | None = None  # by the replicas, summed until they take part
        self._versions: list[int] = []  # of the parts, when they were gathered

    # ------------------------------------------------------------------------ parameters

    def start_unshard(self) -> None:
        """Start to gather the parameters, unless they are whole or on the way."""
        if self.is_unsharded or self._gathering is not None:
            return
        for parameter in self.parameters:
            parameter.adopt_replacement()
        self._versions = self._read_versions()
        packed = [parameter.pack() for parameter in self.parameters]
        sent = np.concatenate(packed) if packed else np.empty(0, np.uint8)
        rows = np.empty((self.info.parts, sent.size), np.uint8)
        group = self.info.shard_group
        call = partial(group._engine.all_gather, rows, sent)
        work = group._communicator.start(call) if sent.size else Work.completed()
        self._gathering = work, rows, packed

    def unshard(self) -> None:
        """Make the parameters whole, and show them to the modules."""
        if not self.is_unsharded:
            self.start_unshard()
            assert self._gathering is not None
            (work, rows, packed), self._gathering = self._gathering, None
            work.wait()
            start = 0
            for parameter, own in zip(self.parameters, packed, strict=True):
                parameter.fill(rows[:, start : start + own.size])
                start += own.size
            self.is_unsharded = True
        for parameter in self.parameters:
            parameter.show(parameter.whole)

    def reshard(self) -> None:
        """Free the whole parameters, and show the parts to the modules."""
        if self._gathering is not None:
            self._gathering[0].wait()
            self._gathering = None
        if not self.is_unsharded:
            return
        for parameter in self.parameters:
            parameter.adopt_replacement()
            parameter.release()
            parameter.show(parameter.sharded)
        self.is_unsharded = False

    def _read_versions(self) -> list[int]:
        return [parameter.sharded._local_tensor._version for parameter in self.parameters]

    def discard_stale(self) -> None:
        """Reshard if the parts were written to since they were gathered."""
        if self.is_unsharded and self._versions != self._read_versions():
            self.reshard()

    # ------------------------------------------------------------------------ gradients

    def start_reduce(self) -> None:
        """Start to average the gradients that there are over the processes."""
        if not self.reduces_gradients:
            return
        self.finish_reduce()
        reduced = [(p, g) for p in self.parameters if (g := p.take_gradient()) is not None]
        if not reduced:
            return
        dtype = reduced[0][1].dtype if self.reduce_dtype is None \
            else ops.empty(0, dtype=self.reduce_dtype)._array.dtype
        rows = np.concatenate([p.pack_gradient(g, dtype) for p, g in reduced], axis=1)
        call = partial(self._reduce, rows)
        work = self.info.shard_group._communicator.start(call)
        self._reducing = work, rows, [p for p, _ in reduced]

    def _reduce(self, rows: np.ndarray) -> None:
        """Reduce all rows over the shards' group, and this process's row over the replicas."""
        info, size = self.info, self.info.parts
        engine = info.shard_group._engine
        if size > 1:
            reduce_array(rows, ReduceOp.SUM, engine, engine.all_reduce)
        own = rows[info.rank]
        if info.replicate_group is not None:
            if self._unreduced is not None:
                own += self._unreduced
                self._unreduced = None
            if not self.reduces_over_replicas:
                self._unreduced = own.copy()
                return
            engine = info.replicate_group._engine
            size *= engine.size
            if engine.size > 1:
                reduce_array(own, ReduceOp.SUM, engine, engine.all_reduce)
        np.divide(own, own.dtype.type(self.divide_factor or size), out=own)

    def finish_reduce(self) -> None:
        """Wait for the averages, and add them to the parts' gradients."""
        if self._reducing is None:
            return
        (work, rows, parameters), self._reducing = self._reducing, None
        work.wait()
        if self._unreduced is not None:
            return
        row, start = rows[self.info.rank], 0
        for parameter in parameters:
            parameter.add_gradient(row[start : start + parameter.padded_size])
            start += parameter.padded_size
