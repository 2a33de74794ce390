"""torch.distributed.algorithms: uneven inputs (join) and communication hooks for gradients."""

from . import ddp_comm_hooks, join

__all__ = ["ddp_comm_hooks", "join"]
