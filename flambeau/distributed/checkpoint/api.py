"""torch.distributed.checkpoint.api: PyTorch's location of CheckpointException."""

from .state_dict_saver import CheckpointException

__all__ = ["CheckpointException"]
