"""Write a GraphModule as a Python package: its code in a file, its parameters beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import nn
from ..native.foundation.user_frames import warn
from ..nn.module import Module, _addindent
from ..serialization import save
from .namespace import custom_builtins
from .qualified_names import import_of_torch

__all__ = ["write_folder"]

# Layers whose repr is a valid constructor call.
_BY_REPR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d,
            nn.BatchNorm3d)
_INDENT = " " * 8


def write_folder(module: Any, folder: Path, name: str) -> None:
    """Write a GraphModule to `folder` so that `from folder import name` imports its class."""
    folder.mkdir(exist_ok=True)
    save(module.state_dict(), folder / "state_dict.pt")
    lines = [import_of_torch(), *(b.import_str for b in custom_builtins().values()), "",
             f"from {_nn()} import *", f"class {name}(torch.nn.Module):",
             "    def __init__(self):", "        super().__init__()"]
    pickled = []
    for child_name, child in module.named_children():
        if type(child) in _BY_REPR:
            lines.append(f"{_INDENT}setattr(self, '{child_name}', {child!r})")
            continue
        pickled.append(child_name)
        file = folder / f"{child_name}.pt"
        save(child, file)
        shown = repr(child).replace("\r", " ").replace("\n", " ")
        lines.append(f"{_INDENT}setattr(self, '{child_name}', torch.load(r'{file}', "
                     f"weights_only=False)) # {shown}")
    lines += [*_write_members(module),
              f"{_INDENT}self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))"]
    source = "\n".join(["", *lines, ""]) + _addindent(module.code, 4) + "\n"
    (folder / "module.py").write_text(source)
    (folder / "__init__.py").write_text("from .module import *")
    if pickled:
        warn(
            "Was not able to save the following children modules as reprs -saved as "
            f"pickled files instead: {pickled}"
        )


def _write_members(module: Module) -> list[str]:
    lines = []
    for name, value in module._buffers.items():
        if value is not None:
            empty = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
            lines.append(f"{_INDENT}self.register_buffer('{name}', {empty})")
    for name, value in module._parameters.items():
        if value is not None:
            empty = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
            lines.append(f"{_INDENT}setattr(self, '{name}', torch.nn.Parameter({empty}))")
    return lines


def _nn() -> str:
    statement = import_of_torch()
    return "torch.nn" if statement == "import torch" else f"{nn.__name__}"
