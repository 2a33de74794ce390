"""Batch normalization without running statistics, which vmap cannot update in place."""

from __future__ import annotations

from ..nn.module import Module
from ..nn.modules.batchnorm import _BatchNorm

__all__ = ["batch_norm_without_running_stats", "replace_all_batch_norm_modules_"]


def batch_norm_without_running_stats(module: Module) -> None:
    """Make a batch normalization use the statistics of each batch; ignore other modules."""
    if isinstance(module, _BatchNorm) and module.track_running_stats:
        module.running_mean = None
        module.running_var = None
        module.num_batches_tracked = None
        module.track_running_stats = False


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make all batch normalizations in a module use the statistics of each batch, in place.

    >>> net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    >>> torch.func.replace_all_batch_norm_modules_(net)[1].running_mean is None
    True
    """
    for module in root.modules():
        batch_norm_without_running_stats(module)
    return root
