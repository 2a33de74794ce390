"""Convert a distributed checkpoint to a torch.save file and back."""

from __future__ import annotations

import os
from typing import Any

from ... import serialization
from .default_planner import _EmptyStateDictLoadPlanner as _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .state_dict_loader import _load_state_dict as _load_state_dict
from .state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike, torch_save_path: Any) -> None:
    """Write the contents of a checkpoint folder to one file."""
    state: dict[str, Any] = {}
    _load_state_dict(state, FileSystemReader(dcp_checkpoint_dir),
                     planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    serialization.save(state, torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: str | os.PathLike) -> None:
    """Write the contents of a torch.save file to a checkpoint folder."""
    state = serialization.load(torch_save_path, weights_only=False)
    save(state, checkpoint_id=dcp_checkpoint_dir, no_dist=True)
