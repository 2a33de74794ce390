"""torch.distributed.elastic.rendezvous: how launchers on several machines find each other."""

from .api import (
    RendezvousClosedError, RendezvousConnectionError, RendezvousError, RendezvousGracefulExitError,
    RendezvousHandler, RendezvousHandlerCreator, RendezvousHandlerRegistry, RendezvousInfo,
    RendezvousParameters, RendezvousStateError, RendezvousStoreInfo, RendezvousTimeoutError,
    rendezvous_handler_registry,
)

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError",
    "RendezvousGracefulExitError", "RendezvousHandler", "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry", "RendezvousInfo", "RendezvousParameters", "RendezvousStateError",
    "RendezvousStoreInfo", "RendezvousTimeoutError", "rendezvous_handler_registry",
]
