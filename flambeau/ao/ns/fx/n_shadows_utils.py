"""torch.ao.ns.fx.n_shadows_utils: PyTorch's name for layers in several forms and their results."""

from .n_shadows import OutputProp as OutputProp
from .n_shadows import create_submodule_from_subgraph as create_submodule_from_subgraph
from .n_shadows_results import *  # noqa: F403
