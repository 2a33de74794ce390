"""torch.export: programs as graphs of aten operators, which can be saved, loaded and transformed.

`export` records one run of a module; `save` and `load` write and read the result.
"""

from ..tensor.absent import make_absent_getattr
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
    """Register a dataclass as a container, so that programs can take and return its instances.

    `serialized_type_name`: its name in files. ValueError if the class is not a dataclass.

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

__getattr__ = make_absent_getattr(__name__, ("draft_export",))
