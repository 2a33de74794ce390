"""torch.version: which PyTorch release flambeau follows, and flambeau's own version.

Both numbers stand here and nowhere else: the build, `flambeau --version` and the alias read them.
"""

__version__ = "2.13.0"
_flambeau_version = "0.1.0"
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = ""
