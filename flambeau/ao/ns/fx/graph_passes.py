"""torch.ao.ns.fx.graph_passes: PyTorch's name for copies of graphs with loggers and shadows."""

from .logged_graph import add_loggers_to_model as add_loggers_to_model
from .shadow_graph import create_a_shadows_b as create_a_shadows_b
