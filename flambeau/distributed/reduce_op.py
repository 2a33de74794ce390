"""ReduceOp: operations that reduce the values of several processes to one."""

from __future__ import annotations

import enum

__all__ = ["ReduceOp", "reduce_op"]


class ReduceOp(enum.Enum):
    """An operation that reduces the values of several processes to one.

    BAND, BOR and BXOR are for integers. AVG is the sum divided by the number of processes.
    """

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    __hash__ = object.__hash__  # Enum's is Python code, and each collective hashes its op

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # no name of it, as an enum sees it


class _OldNames:
    """torch.distributed.reduce_op: the former names of the members of ReduceOp."""

    SUM, PRODUCT, MIN, MAX = ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX


reduce_op = _OldNames
