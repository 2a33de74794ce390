"""Hooks that make a sharded module's `state_dict()` and `load_state_dict()` those of the module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from ...tensor import Tensor
from ..device_mesh import DeviceMesh
from ..tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from .api import StateDictType
from .names import FSDP_PREFIX, clean_tensor_name
from .whole_parameters import whole_parameters


def register_state_dict_hooks(module: Any) -> None:
    """Register the hooks on a FullyShardedDataParallel."""
    module.register_state_dict_pre_hook(_prepare_saving)
    module._register_state_dict_hook(_finish_saving)
    module._register_load_state_dict_pre_hook(_prepare_loading, with_module=True)
    module.register_load_state_dict_post_hook(_finish_loading)


def _enter(module: Any, context: AbstractContextManager[None]) -> None:
    """Make the parameters whole until `_leave`."""
    context.__enter__()
    module.__dict__["_flambeau_whole"] = context


def _leave(module: Any) -> None:
    context = module.__dict__.pop("_flambeau_whole", None)
    if context is not None:
        context.__exit__(None, None, None)


def _is_local(module: Any) -> bool:
    return module._flambeau_settings.state_dict_type is StateDictType.LOCAL_STATE_DICT


def own_names(handle: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the names of a unit's parameters, aliases included, with their segments."""
    for segment in handle.layout.segments:
        for path in segment.paths:
            yield prefix + clean_tensor_name(path), segment


def _prepare_saving(module: Any, prefix: str, keep_vars: bool) -> None:
    if module._handle is not None and not _is_local(module):
        _enter(module, whole_parameters(module._handle, writeback=False))


def _finish_saving(
    module: Any, state: dict[str, Any], prefix: str, metadata: Any
) -> dict[str, Any]:
    """Remove the wrapper's prefix from names; copy or drop the values."""
    _leave(module)
    _rename(state, prefix + FSDP_PREFIX, prefix)
    _restore_buffer_dtypes(module, state, prefix)
    settings = module._flambeau_settings
    if module._handle is not None and not _is_local(module):
        copies: dict[int, Any] = {}
        for name, segment in own_names(module._handle, prefix):
            if name in state:
                if id(segment) not in copies:
                    copies[id(segment)] = _copy_value(module, state[name])
                state[name] = copies[id(segment)]
    if getattr(settings.state_dict_config, "rank0_only", False) and module.rank != 0:
        for name in [name for name in state if name.startswith(prefix)]:
            del state[name]
    return state


def _copy_value(module: Any, value: Any) -> Any:
    """Return a copy of a whole parameter, or this process's part of it as a DTensor."""
    if module._flambeau_settings.state_dict_type is StateDictType.SHARDED_STATE_DICT:
        return cut_over_group(value.detach(), module._handle.group)
    return value.detach().clone()


def cut_over_group(whole: Tensor, group: Any) -> DTensor:
    """Return a tensor that all processes of a group have as a DTensor, cut along its first axis."""
    mesh = DeviceMesh.from_group(group, "cpu")
    cut: Placement = Shard(0) if whole.dim() else Replicate()
    return distribute_tensor(whole, mesh, [cut], src_data_rank=None)


def _rename(state: dict[str, Any], old: str, new: str) -> None:
    """Replace the prefix `old` by `new`, in the order of the keys."""
    metadata = getattr(state, "_metadata", None)
    for table in (state, metadata) if metadata is not None else (state,):
        items = list(table.items())
        if not any(key.startswith(old) or f"{key}." == old for key, _ in items):
            continue
        table.clear()
        for key, value in items:
            if f"{key}." == old:  # the metadata of the module itself
                table[new.removesuffix(".")] = value
            else:
                table[new + key[len(old) :] if key.startswith(old) else key] = value


def _restore_buffer_dtypes(module: Any, state: dict[str, Any], prefix: str) -> None:
    """Save buffers in their own dtype, not in that of computation."""
    if not module._buffer_dtypes:
        return
    for name, buffer in module._fsdp_wrapped_module.named_modules():
        for key in buffer._buffers:
            dtype = module._buffer_dtypes.get((id(buffer), key))
            path = prefix + clean_tensor_name(f"{name}.{key}" if name else key)
            if dtype is not None and path in state:
                state[path] = state[path].to(dtype)


def _prepare_loading(module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Add the wrapper's prefix to names, and make the parameters whole."""
    _rename(state, prefix, prefix + FSDP_PREFIX)
    if module._handle is not None and not _is_local(module):
        for name, _ in own_names(module._handle, prefix + FSDP_PREFIX):
            value: Any = state.get(name)
            if hasattr(value, "full_tensor"):
                state[name] = value.full_tensor()
        _enter(module, whole_parameters(module._handle, writeback=True))


def _finish_loading(module: Any, keys: Any) -> None:
    _leave(module)
    for names in (keys.missing_keys, keys.unexpected_keys):
        names[:] = [name.replace(FSDP_PREFIX, "") for name in names]
