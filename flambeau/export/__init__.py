"""torch.export: programs as graphs of aten's operators, which files hold and other programs run.

`export` records one run of a module; `save` and `load` write and read what it gives.
"""

from ..tensor.absent import lacking
from .archive import load, save
from .dynamic_shapes import Dim, ShapesCollection, dims
from .exported_program import ExportedProgram
from .graph_signature import ExportGraphSignature
from .trace import export

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "ShapesCollection", "dims", "export",
           "load", "save"]

export_for_training = export

__getattr__ = lacking(__name__, ("draft_export", "register_dataclass", "unflatten"))
