"""parallelize_module: applies parallel styles to the submodules that a plan names."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch

from ....native.foundation.user_frames import warn
from ....nn.module import Module
from ...device_mesh import DeviceMesh
from .cut_styles import ParallelStyle


def parallelize_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None, *,
    src_data_rank: int | None = 0,
) -> Module:
    """Distribute a module over a mesh of one axis, and return it.

    `parallelize_plan` is a style, or a dictionary from submodules' names to styles; names may have
    the wildcards of `fnmatch`. `src_data_rank`: whose parameters are distributed.
    """
    mesh = DeviceMesh.current() if device_mesh is None else device_mesh
    if parallelize_plan is None:
        warn("No parallelize_plan is provided and auto-parallel is not supported at the moment, so "
             "this parallelize_module call will do nothing.")
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError("Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for "
                        f"parallelize_plan, {type(parallelize_plan)} found!")
    for path, style in parallelize_plan.items():
        _apply_at(module, mesh, path, style, src_data_rank)
    return module


def _apply_at(
    module: Module, mesh: DeviceMesh, path: str, style: ParallelStyle, src_data_rank: int | None
) -> None:
    """Apply a style to the submodules at a path."""
    if path == "":
        parallelize_module(module, mesh, style, src_data_rank=src_data_rank)
        return
    name, _, rest = path.partition(".")
    children = [child for key, child in module.named_children() if fnmatch(key, name)]
    if not children:
        warn(f"Parallelize plan key '{path}' could not be resolved: no submodule matching token "
             f"'{name}' in module {module}, skipping this plan entry.")
    for child in children:
        _apply_at(child, mesh, rest, style, src_data_rank)
