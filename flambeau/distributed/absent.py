"""Placeholders for the torch.distributed modules that flambeau does not implement.

Programs import sharded models, their checkpoints and device meshes at the top of a file even when a
run never uses them. Importing works; using a name raises NotImplementedError.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..tensor.absent import Lacking

_MODULES = (
    "_functional_collectives _shard _shard.sharded_tensor "
    "algorithms._checkpoint algorithms._checkpoint.checkpoint_wrapper "
    "algorithms.ddp_comm_hooks.post_localSGD_hook algorithms.model_averaging "
    "algorithms.model_averaging.averagers "
    "checkpoint._consolidate_hf_safetensors checkpoint.hf_storage checkpoint.optimizer "
    "checkpoint.planner checkpoint.storage fsdp._common_utils "
    "fsdp._runtime_utils fsdp.sharded_grad_scaler "
    "pipelining rpc utils"
).split()


class _Absent(ModuleType):
    """A module whose every name is a Lacking placeholder."""

    def __getattr__(self, name: str) -> Lacking:
        if name.startswith("__") or (self.__name__.endswith(".rpc") and name == "api"):
            raise AttributeError(name)
        return Lacking(f"torch{self.__name__.removeprefix('flambeau')}.{name}")


def create_placeholders(package: str) -> dict[str, ModuleType]:
    """Register the placeholders in `sys.modules`; return the top-level ones by name."""
    top: dict[str, ModuleType] = {}
    for path in _MODULES:
        name = f"{package}.{path}"
        module = _Absent(name, "Not in flambeau: what is used of it raises NotImplementedError.")
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        sys.modules[name] = module
        above, _, last = path.rpartition(".")
        if above:
            if f"{package}.{above}" in sys.modules:  # else: a flambeau module, imported later
                setattr(sys.modules[f"{package}.{above}"], last, module)
        else:
            top[path] = module
    vars(top["rpc"])["is_available"] = lambda: False  # callers then never import `api`
    return top
