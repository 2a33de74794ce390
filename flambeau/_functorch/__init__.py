"""torch._functorch: torch.func under the names of functorch, the package that it was at first."""

from . import config as config
