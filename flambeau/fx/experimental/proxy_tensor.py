"""torch.fx.experimental.proxy_tensor: programs ask whether a trace is being made; none ever is."""

from __future__ import annotations

from ...tensor.absent import lacking

__all__ = ["get_proxy_mode"]

__getattr__ = lacking(__name__, ("ProxyTorchDispatchMode", "make_fx"))


def get_proxy_mode() -> None:
    """None: no trace is being made.

    >>> from flambeau.fx.experimental.proxy_tensor import get_proxy_mode
    >>> get_proxy_mode() is None
    True
    """
