"""The registered handlers."""

from __future__ import annotations

from .api import RendezvousHandler, RendezvousParameters, rendezvous_handler_registry

__all__ = ["get_rendezvous_handler"]


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Make the handler of a registered backend; flambeau's launcher needs none, and registers none
    of PyTorch's."""
    return rendezvous_handler_registry.create_handler(params)
