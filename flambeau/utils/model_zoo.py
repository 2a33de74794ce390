"""torch.utils.model_zoo: the old address of torch.hub's downloads."""

import importlib
from typing import Any

__all__ = ["load_url"]


def load_url(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """torch.hub.load_state_dict_from_url."""
    # By name, not by an import statement: hub lies above utils.
    return importlib.import_module("flambeau.hub").load_state_dict_from_url(*args, **kwargs)
