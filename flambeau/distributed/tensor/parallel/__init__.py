"""torch.distributed.tensor.parallel: modules whose parameters are cut over a device mesh."""

from ....tensor.absent import make_absent_getattr
from .input_output import PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput
from .loss import loss_parallel
from .parallelize import parallelize_module
from .cut_styles import ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]

__getattr__ = make_absent_getattr(__name__, ("input_reshard",))
