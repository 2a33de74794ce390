"""torch._functorch: torch.func under the names of functorch, the package that it was at first."""

from . import autograd_function as autograd_function
from . import config as config
