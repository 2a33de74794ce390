"""torch._inductor: the settings of PyTorch's code generator, which are taken and have no effect."""

from . import config

__all__ = ["config", "cudagraph_mark_step_begin"]


def cudagraph_mark_step_begin() -> None:
    """No-op: there are no CUDA graphs, whose memory a new step would take over."""
