"""torch.utils.model_zoo: the old address of torch.hub's downloads, and of its progress bar."""

import importlib
from typing import Any

__all__ = ["load_url"]


def load_url(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """torch.hub.load_state_dict_from_url."""
    # By name, not by an import statement: hub lies above utils.
    return importlib.import_module("flambeau.hub").load_state_dict_from_url(*args, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "tqdm":
        return importlib.import_module("flambeau.hub").tqdm
    raise AttributeError(f"module 'torch.utils.model_zoo' has no attribute '{name}'")
