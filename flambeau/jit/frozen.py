"""Results of `torch.jit.freeze`: modules in eval mode whose state is no longer accessible."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..nn.module import Module
from .folding import fold_program
from .torchscript.script_module import RecursiveScriptModule, ScriptModule

__all__ = ["FrozenModule", "freeze"]


class FrozenModule(RecursiveScriptModule):
    """A copy of a scripted module that exposes only `forward` and the preserved attributes.

    Parameters, buffers and submodules belong to the program: `state_dict()` is empty, and `train()`
    does not affect results. Where possible, calls run a graph in which they are folded.
    """

    def __init__(self, module: ScriptModule, preserved: Sequence[str],
                 folds_numerics: bool = True) -> None:
        super().__init__()
        state = self.__dict__
        state.pop("training")
        state["_flambeau_program"], state["_flambeau_preserved"] = module, frozenset(preserved)
        state["original_name"] = getattr(module, "original_name", type(module).__name__)
        state["_flambeau_folding"] = None if any(
            not callable(getattr(module, path, None)) for path in preserved
        ) else fold_program(module, folds_numerics)
        for name in dict.fromkeys(path.partition(".")[0] for path in preserved if "." in path):
            state["_modules"][name] = FrozenModule(
                getattr(module, name), _list_names_below(preserved, name))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, or the graph that stands for it."""
        folding = self._flambeau_folding
        if folding is not None and folding.accepts(args, kwargs):
            with suppress(Exception):  # the program's own errors name its lines
                return folding.module(*args)
        return self._flambeau_program(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        if name in state.get("_flambeau_preserved", ()):
            return getattr(state["_flambeau_program"], name)
        if name in state.get("_modules", ()):
            return state["_modules"][name]
        raise AttributeError(f"'{self._get_name()}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if name in state.get("_flambeau_preserved", ()):
            setattr(state["_flambeau_program"], name, value)
        else:
            super().__setattr__(name, value)

    @property
    def code(self) -> str:
        """`forward` in TorchScript."""
        return self._flambeau_program.code

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write the program as an archive without parameters and buffers. PyTorch reads it too."""
        self._flambeau_program._flambeau_save_as(f, _extra_files, is_frozen=True)


def _has_path(owner: Any, path: str) -> bool:
    """Return whether `a.b` leads to an attribute."""
    for name in path.split("."):
        if not hasattr(owner, name):
            return False
        owner = getattr(owner, name)
    return True


def _list_names_below(preserved: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the rest of the paths that start with a submodule's name."""
    return tuple(path.removeprefix(f"{name}.") for path in preserved
                 if path.startswith(f"{name}."))


def freeze(module: Any, preserved_attrs: Sequence[str] | None = None,
           folds_numerics: bool = True) -> FrozenModule:
    """Return a frozen copy of a scripted, traced or loaded module.

    `folds_numerics`: whether batch norms are folded into the layers before them.

    Raises RuntimeError for other modules, training mode, and unknown attributes.
    """
    if not isinstance(module, ScriptModule):
        raise RuntimeError("Freezing expects a ScriptModule as input. Please use torch.jit.script "
                           "or torch.jit.trace to script your 'nn.Module'.")
    preserved = tuple(preserved_attrs or ())
    program: Any = module._flambeau_program if isinstance(module, FrozenModule) else module
    if program.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. "
                           "Please call .eval() on your module before freezing.")
    for name in preserved:
        if not _has_path(module, name):
            raise RuntimeError(f"Unknown name: {name}")
    return FrozenModule(Module.requires_grad_(copy.deepcopy(program), False), preserved,
                        folds_numerics)
