"""Planners: which entries of a checkpoint a load reads, and into which state dict."""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate
from typing import Any

from ... import ops
from ...tensor.absent import make_absent_getattr
from .flat_names import set_element
from .metadata import Metadata, TensorStorageMetadata

__getattr__ = make_absent_getattr(__name__, (
    "DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan",
    "create_default_global_save_plan", "create_default_local_load_plan",
    "create_default_local_save_plan",
))


class _EmptyStateDictLoadPlanner:
    """Planner for a load without a model: rebuilds the saved state dict in an empty one.

    `keys`: what to read, as flat names or as parts of the state dict ("optimizer", "net.layer");
    None for everything. It needs memory for the whole checkpoint, so use it in one process.
    """

    def __init__(
        self, keys: Collection[str] | None = None, flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True, allow_partial_load: bool = False,
    ) -> None:
        self.keys = keys
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load

    def _should_include_key(self, key: str, metadata: Metadata) -> bool:
        if self.keys is None or key in self.keys:
            return True
        path = (metadata.planner_data or {}).get(key, (key,))
        parts = accumulate(map(str, path), lambda outer, inner: f"{outer}.{inner}")
        return any(part in self.keys for part in parts)

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Put an uninitialized tensor, or a placeholder, where each entry of `keys` was saved.

        Raises AssertionError if the state dict is not empty, or without metadata.
        """
        if state_dict:
            raise AssertionError("not state_dict")
        if metadata is None:
            raise AssertionError("metadata is not None")
        paths = metadata.planner_data or {}
        for name, described in metadata.state_dict_metadata.items():
            if not self._should_include_key(name, metadata):
                continue
            value: Any = described
            if isinstance(described, TensorStorageMetadata):
                value = ops.empty(described.size, dtype=described.properties.dtype)
            set_element(state_dict, paths.get(name, (name,)), value)
