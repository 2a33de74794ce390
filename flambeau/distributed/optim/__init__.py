"""torch.distributed.optim: optimizers whose state is shared out over the processes."""

from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
