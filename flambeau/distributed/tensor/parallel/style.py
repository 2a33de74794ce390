"""torch.distributed.tensor.parallel.style: all styles, under the name of PyTorch's module."""

from .cut_styles import ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel
from .input_output import PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel",
]
