"""torch.ao.ns.fx.utils: PyTorch's name for error measures, facts about nodes, and results."""

from ...quantization.utils import getattr_from_fqn as getattr_from_fqn
from .error_measures import *  # noqa: F403
from .node_types import *  # noqa: F403
from .results import *  # noqa: F403
