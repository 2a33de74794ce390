"""Results of `torch.jit.freeze`: modules in eval mode whose state is no longer accessible."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..nn.module import Module
from .graphs.assembly import assemble
from .graphs.freezing import freeze_methods
from .graphs.passes.frozen_layers import optimize_frozen_graph
from .torchscript.script_module import LoadedModule, RecursiveScriptModule, ScriptModule

__all__ = ["FrozenModule", "freeze", "freeze_graphs", "run_frozen_optimizations"]


class FrozenModule(RecursiveScriptModule):
    """A copy of a module without a graph that exposes only what is preserved.

    Parameters, buffers and submodules belong to the program: `state_dict()` is empty, and `train()`
    does not affect results.
    """

    def __init__(self, module: ScriptModule, preserved: Sequence[str]) -> None:
        super().__init__()
        state = self.__dict__
        state.pop("training")
        state["_flambeau_program"], state["_flambeau_preserved"] = module, frozenset(preserved)
        state["original_name"] = getattr(module, "original_name", type(module).__name__)
        for name in dict.fromkeys(path.partition(".")[0] for path in preserved if "." in path):
            state["_modules"][name] = FrozenModule(
                getattr(module, name), _list_names_below(preserved, name))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
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


def freeze_graphs(module: Any, preserved: Sequence[str] = (), preserve_parameters: bool = False,
                  optimize_numerics: bool | None = None) -> LoadedModule:
    """Return a module that runs the frozen graphs of another one's methods: _freeze_module.

    It shares the tensors of the module, whose modes it has: in training mode, parameters and
    buffers stay attributes. `optimize_numerics`: run the passes of `run_frozen_optimizations`.
    Raises NotImplementedError for a program without a graph.
    """
    program = module._flambeau_compile(tuple(preserved))
    frozen = freeze_methods(program, list(preserved), preserve_parameters)
    if optimize_numerics is not None:
        for graph in frozen.graphs.values():
            optimize_frozen_graph(graph, optimize_numerics)
    return assemble(program, frozen)


def run_frozen_optimizations(module: Any, optimize_numerics: bool = True,
                             preserved_methods: Sequence[str] | None = None) -> None:
    """Leave out dropout, and fold batch norms and arithmetic into layers, in a frozen module.

    `optimize_numerics`: whether to fold, which changes roundings.
    """
    kind = getattr(module, "_flambeau_type", None)
    for name in ("forward", *(preserved_methods or ())):
        if kind is not None and name in kind.methods:
            optimize_frozen_graph(kind.methods[name].graph, optimize_numerics)


def freeze(module: Any, preserved_attrs: Sequence[str] | None = None,
           optimize_numerics: bool = True) -> RecursiveScriptModule:
    """Return a frozen copy of a scripted, traced or loaded module.

    `optimize_numerics`: whether batch norms are folded into the layers before them.

    Raises RuntimeError for other modules, training mode, and unknown attributes.
    """
    if not isinstance(module, ScriptModule):
        raise RuntimeError("Freezing expects a ScriptModule as input. Please use torch.jit.script "
                           "or torch.jit.trace to script your 'nn.Module'.")
    preserved = tuple(preserved_attrs or ())
    if getattr(module, "training", False):
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. "
                           "Please call .eval() on your module before freezing.")
    for name in preserved:
        if not _has_path(module, name):
            raise RuntimeError(f"Unknown name: {name}")
    copied: Any = copy.deepcopy(module)
    try:
        return freeze_graphs(copied, preserved, optimize_numerics=optimize_numerics)
    except NotImplementedError:  # a line that has no graph
        return FrozenModule(Module.requires_grad_(copied, False), preserved)
