"""torch.distributed.checkpoint.api: where PyTorch has the exception of a failed save."""

from .state_dict_saver import CheckpointException

__all__ = ["CheckpointException"]
