"""Parts of DistributedDataParallel: buckets, their reduction, state synchronization."""

from .bucket import GradBucket
from .reducer import Reducer
from .state_sync import broadcast_tensors, check_same_parameters

__all__ = ["GradBucket", "Reducer", "broadcast_tensors", "check_same_parameters"]
