"""torch.distributed.checkpoint: save a state dict from several processes, load it in any number."""

from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import (
    BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata,
)
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import CheckpointException, async_save, save, save_state_dict
from .stateful import Stateful

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "FileSystemReader",
    "FileSystemWriter", "Metadata", "Stateful", "TensorStorageMetadata", "async_save", "load",
    "load_state_dict", "save", "save_state_dict",
]
