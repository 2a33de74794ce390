"""torch._functorch.batch_norm_replacement: batch normalization without running statistics."""

from ..func.batch_norm import batch_norm_without_running_stats, replace_all_batch_norm_modules_

__all__ = ["batch_norm_without_running_stats", "replace_all_batch_norm_modules_"]
