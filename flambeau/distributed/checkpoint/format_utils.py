"""Turns a distributed checkpoint into one file of torch.save, and back."""

from __future__ import annotations

import os
from typing import Any

from ... import serialization
from .state_dict_loader import load_everything
from .state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike, torch_save_path: Any) -> None:
    """Write what a checkpoint's folder has to a file."""
    serialization.save(load_everything(dcp_checkpoint_dir), torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: str | os.PathLike) -> None:
    """Write what a file has to a checkpoint's folder."""
    state = serialization.load(torch_save_path, weights_only=False)
    save(state, checkpoint_id=dcp_checkpoint_dir, no_dist=True)
