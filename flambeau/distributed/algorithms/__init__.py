"""torch.distributed.algorithms: uneven inputs, and ways to communicate gradients."""

from . import ddp_comm_hooks, join

__all__ = ["ddp_comm_hooks", "join"]
