"""ModuleCalls: record the calls of submodules, with their arguments and results."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..fx.patcher import Patcher
from ..nn.module import Module
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, OutputKind, SymIntArgument, TensorArgument,
)
from .module_state import format_class_name
from .recorder import Recorder

__all__ = ["ModuleCallEntry", "ModuleCallSignature", "ModuleCalls"]


@dataclass
class ModuleCallSignature:
    """Arguments and results of a module: nodes of the flat graph, and their tree structure."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    forward_arg_names: list[str] | None = None


@dataclass
class ModuleCallEntry:
    """A submodule's path, and its signature if the export preserves it."""

    fqn: str
    signature: ModuleCallSignature | None = field(default=None)


class ModuleCalls:
    """Recorder of the calls of a module's submodules.

    `preserved`: the paths of the submodules whose signatures to record.
    """

    def __init__(self, module: Module, preserved: Iterable[str]) -> None:
        self.module, self.preserved = module, frozenset(preserved)
        paths = dict(module.named_modules(remove_duplicate=False))
        for path in self.preserved - paths.keys():
            raise AttributeError(f"{module._get_name()} has no submodule `{path}`")
        first = {module: path for path, module in module.named_modules()}
        self.aliases = {path: first[m] for path, m in paths.items()}
        self.signatures: dict[str, ModuleCallSignature] = {}

    def follow(self, patcher: Patcher, recorder: Recorder) -> None:
        """Make nodes record the module calls that they are created in. Patches Module.__call__."""
        paths = {module: path for path, module in self.module.named_modules()}
        counts: dict[str, int] = {}
        call: Any = Module.__call__

        @functools.wraps(call)
        def noted(module: Any, *args: Any, **kwargs: Any) -> Any:
            path = paths.get(module)
            if path is None:
                return call(module, *args, **kwargs)
            before = recorder.stack
            count = counts[path] = counts.get(path, -1) + 1
            key = f"L__self___{path}" + (f"@{count}" if count else "")
            recorder.stack = {**before, key: (path, format_class_name(module))}
            inputs = self._values(recorder, (args, kwargs)) if path in self.preserved else None
            try:
                result = call(module, *args, **kwargs)
            finally:
                recorder.stack = before
            if inputs is not None:
                outputs = self._values(recorder, result)
                names = list(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
                self.signatures[path] = ModuleCallSignature(
                    inputs[0], outputs[0], inputs[1], outputs[1], names)
            return result

        patcher.patch_method(Module, "__call__", noted, deduplicate=False)

    def _values(self, recorder: Recorder, tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
        leaves, spec = pytree.tree_flatten(tree)
        values: list[Any] = []
        for leaf in leaves:
            node = recorder.node_of(leaf)
            if isinstance(leaf, Tensor):
                values.append(TensorArgument(node.name))
            elif node is not leaf:
                values.append(SymIntArgument(node.name))
            else:
                values.append(ConstantArgument("", leaf))
        return values, spec

    def entries(self, in_spec: pytree.TreeSpec, out_spec: pytree.TreeSpec,
                signature: ExportGraphSignature) -> list[ModuleCallEntry]:
        """Return an entry for each module path; the whole program's has its signature."""
        inputs = [s.arg for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
        outputs = [s.arg for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
        own = ModuleCallSignature(inputs, outputs, in_spec, out_spec)
        return [ModuleCallEntry(path, self.signatures.get(path) if path else own)
                for path in self.aliases]
