"""torch.export: programs as graphs of aten's operators, which files hold and other programs run.

`export` records one run of a module; `save` and `load` write and read what it gives.
"""

from ..tensor.absent import lacking
from .archive import load, save
from .dataclass_nodes import register_dataclass_node
from .decompositions import default_decompositions
from .dynamic_shapes import Dim, ShapesCollection, dims
from .exported_program import ExportedProgram
from .graph_signature import ExportGraphSignature
from .module_calls import ModuleCallEntry, ModuleCallSignature
from .trace import export
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry",
           "ModuleCallSignature", "ShapesCollection", "UnflattenedModule", "default_decompositions",
           "dims", "export", "load", "register_dataclass", "save", "unflatten"]

export_for_training = export


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Register a dataclass as a container, so that programs take and give its instances.

    `serialized_type_name`: its name in files. ValueError for a class that is no dataclass.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pair:
    ...     left: torch.Tensor
    ...     right: torch.Tensor
    >>> torch.export.register_dataclass(Pair)
    >>> torch.utils._pytree.tree_leaves(Pair(1, 2))
    [1, 2]
    """
    register_dataclass_node(cls, serialized_type_name=serialized_type_name)

__getattr__ = lacking(__name__, ("draft_export",))
