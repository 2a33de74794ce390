"""What launchers of other backends implement to agree on a group of machines."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..utils.distributed import get_free_port

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError",
    "RendezvousGracefulExitError", "RendezvousHandler", "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry", "RendezvousInfo", "RendezvousParameters", "RendezvousStateError",
    "RendezvousStoreInfo", "RendezvousTimeoutError", "rendezvous_handler_registry",
]


class RendezvousError(Exception):
    """A failed rendezvous."""


class RendezvousClosedError(RendezvousError):
    """The rendezvous is closed."""


class RendezvousTimeoutError(RendezvousError):
    """The rendezvous was not complete in time."""


class RendezvousConnectionError(RendezvousError):
    """The connection to a backend failed."""


class RendezvousStateError(RendezvousError):
    """The state of a rendezvous is corrupt."""


class RendezvousGracefulExitError(RendezvousError):
    """The machine is not part of the group, and leaves without a failure."""


@dataclass
class RendezvousStoreInfo:
    """The address at which workers meet."""

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(
        rank: int, store: Any, local_addr: str | None, server_port: int | None = None
    ) -> RendezvousStoreInfo:
        """Tell all ranks rank 0's address, with a free port of it, through a store."""
        key = RendezvousStoreInfo
        if rank == 0:
            store.set(key.MASTER_ADDR_KEY, (local_addr or socket.getfqdn()).encode())
            store.set(key.MASTER_PORT_KEY, str(server_port or get_free_port()).encode())
        return RendezvousStoreInfo(store.get(key.MASTER_ADDR_KEY).decode(),
                                   int(store.get(key.MASTER_PORT_KEY).decode()))


class RendezvousInfo:
    """The result of a rendezvous: the launchers' store and this one's place."""

    def __init__(
        self, store: Any, rank: int, world_size: int, bootstrap_store_info: RendezvousStoreInfo
    ) -> None:
        self.store, self.rank, self.world_size = store, rank, world_size
        self.bootstrap_store_info = bootstrap_store_info


class RendezvousHandler(ABC):
    """A backend's way to agree on a group."""

    @abstractmethod
    def get_backend(self) -> str:
        """Return the backend's name."""

    @property
    def use_agent_store(self) -> bool:
        """Whether workers may use the launchers' store."""
        return False

    @abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until a group with this machine is complete."""

    @abstractmethod
    def is_closed(self) -> bool:
        """Return whether no further group will form."""

    @abstractmethod
    def set_closed(self) -> None:
        """Let no further group form."""

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """Return how many machines wait for the next group."""

    @abstractmethod
    def get_run_id(self) -> str:
        """Return the job's name."""

    @abstractmethod
    def shutdown(self) -> bool:
        """Release what the rendezvous holds; return whether that worked."""


class RendezvousParameters:
    """What a handler is made from; further options in `config`.

    >>> from flambeau.distributed.elastic.rendezvous import RendezvousParameters
    >>> options = RendezvousParameters("c10d", "localhost:1", "job", 1, 2, is_host="yes")
    >>> options.get_as_bool("is_host"), options.get_as_int("timeout", 5)
    (True, 5)
    """

    def __init__(
        self, backend: str, endpoint: str, run_id: str, min_nodes: int, max_nodes: int,
        local_addr: str | None = None, **kwargs: Any
    ) -> None:
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be "
                             "greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or "
                f"equal to the minimum number of rendezvous nodes ({min_nodes}).")
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes = min_nodes, max_nodes
        self.config, self.local_addr = kwargs, local_addr

    def get(self, key: str, default: Any = None) -> Any:
        """Return an option."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """Return an option as a bool; ValueError if it is none."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        text = str(value).lower() if isinstance(value, (int, str)) else ""
        if text in ("1", "true", "t", "yes", "y"):
            return True
        if text in ("0", "false", "f", "no", "n"):
            return False
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid "
                         "boolean value.")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """Return an option as an int; ValueError if it is none."""
        value = self.get(key, default)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError as error:
            raise ValueError(f"The rendezvous configuration option '{key}' does not represent a "
                             "valid integer value.") from error


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Makes handlers by the backend's name."""

    def __init__(self) -> None:
        self._creators: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Set the function that makes a backend's handlers."""
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        known = self._creators.setdefault(backend, creator)
        if known != creator:
            raise ValueError(f"The rendezvous backend '{backend}' cannot be registered with "
                             f"'{creator}' as it is already registered with '{known}'.")

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """Make a handler."""
        creator = self._creators.get(params.backend)
        if creator is None:
            raise ValueError(f"The rendezvous backend '{params.backend}' is not registered. Did you"
                             " forget to call `register`?")
        handler = creator(params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{handler.get_backend()}' does not match the requested "
                f"backend '{params.backend}'.")
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
