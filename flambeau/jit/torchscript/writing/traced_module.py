"""Write a traced module as a TorchScript archive."""

from __future__ import annotations

from typing import Any

from ....export.exported_program import ExportedProgram
from ....nn.module import Module
from .archive import without_state, write
from .classes import ClassWriter
from .graph_code import GraphCode

__all__ = ["save"]


def save(module: Module, program: ExportedProgram, name: str, file: Any,
         extra_files: dict[str, Any] | None = None, is_frozen: bool = False) -> None:
    """Write the archive; if `is_frozen`, without parameters and buffers.

    Raises NotImplementedError, before writing anything, for a graph that TorchScript lacks.
    """
    classes = ClassWriter()
    qualified = classes.name(name)
    code = GraphCode(program, qualified)
    root = classes.tree(module, qualified, code.forward, frozenset(program.constants))
    functions = code.function_code()
    if functions:
        classes.add("__torch__.torch.nn.functional", functions)
    texts = without_state(classes.code) if is_frozen else classes.code
    write(file, root, texts, code.constants, extra_files)
