"""torch.version: which PyTorch flambeau follows, and what it is built for."""

__version__ = "2.13.0"
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = ""
