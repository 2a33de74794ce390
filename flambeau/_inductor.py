"""torch._inductor: the settings of PyTorch's code generator, which are taken and have no effect."""

from ._dynamo import Settings

__all__ = ["config"]

config = Settings()
