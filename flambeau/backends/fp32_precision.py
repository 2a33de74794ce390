"""How float32 is computed on a GPU or in oneDNN, as a tree of settings: `torch.backends`, a library
below, its operators below that. "none" takes the setting above. They are only stored.
"""

from __future__ import annotations

import sys
from typing import Any

_PRECISIONS = {
    "generic": ("none", "ieee", "tf32", "bf16"),
    "cuda": ("none", "ieee", "tf32"),
    "mkldnn": ("none", "ieee", "tf32", "bf16"),
}
_BY_DEFAULT = {("cuda", "conv"): "tf32", ("cuda", "rnn"): "tf32"}  # unless set, also to "none"
_chosen: dict[tuple[str, str], str] = {}


def get_precision(backend: str, op: str) -> str:
    """Return the setting of an operator ("matmul", "conv", "rnn") or of a whole library ("all")."""
    own = _chosen.get((backend, op), "none")
    if own != "none":
        return own
    above = "none"
    for home in ((backend, "all"), ("generic", "all")):
        above = above if above != "none" else _chosen.get(home, "none")
    if above == "none" and (backend, op) not in _chosen:
        return _BY_DEFAULT.get((backend, op), "none")
    return above if above in _PRECISIONS[backend] else "none"


def set_precision(backend: str, op: str, precision: str) -> None:
    """Set "ieee", "tf32", "bf16" or "none". Raise RuntimeError if the library lacks it."""
    if not isinstance(precision, str):
        raise TypeError(
            "_set_fp32_precision_setter(): incompatible function arguments. The following argument "
            "types are supported:\n    1. (arg0: str, arg1: str, arg2: str) -> str\n\nInvoked "
            f"with: {backend!r}, {op!r}, {precision!r}"
        )
    if precision not in _PRECISIONS["generic"]:
        raise RuntimeError(f"Unknown precision: {precision}")
    if precision not in _PRECISIONS[backend]:
        raise RuntimeError(f"backend '{backend}' does not support precision '{precision}'")
    _chosen[backend, op] = precision


class OperatorPrecision:
    """The settings of one operator of a library: `torch.backends.cudnn.conv`, say."""

    def __init__(self, backend: str, op: str, **others: Any) -> None:
        self.__dict__.update(backend=backend, op=op, **others)

    @property
    def fp32_precision(self) -> str:
        """The precision of the operator's float32 inputs."""
        return get_precision(self.backend, self.op)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a setting. Raise AttributeError for others."""
        if name == "fp32_precision":
            set_precision(self.backend, self.op, value)
        elif name in self.__dict__:
            self.__dict__[name] = value
            if name == "allow_tf32":
                set_precision(self.backend, self.op, "tf32" if value else "ieee")
        else:
            raise AttributeError("Unknown attribute " + name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError("Unknown attribute " + name)


def give_precision(module: str, backend: str) -> None:
    """Give a module the setting `fp32_precision` of a whole library."""
    namespace: Any = sys.modules[module]
    setting = property(lambda _: get_precision(backend, "all"),
                       lambda _, value: set_precision(backend, "all", value))
    namespace.__class__ = type("BackendSettings", (type(namespace),), {"fp32_precision": setting})
