"""torch.utils.model_zoo: the former location of torch.hub's downloads and progress bar."""

import importlib
from typing import Any

__all__ = ["load_url"]


def load_url(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call torch.hub.load_state_dict_from_url."""
    # Imported by name: hub is layered above utils.
    return importlib.import_module("flambeau.hub").load_state_dict_from_url(*args, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "tqdm":
        return importlib.import_module("flambeau.hub").tqdm
    raise AttributeError(f"module 'torch.utils.model_zoo' has no attribute '{name}'")
