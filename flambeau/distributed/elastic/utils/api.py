"""Environment variables and free ports of launchers."""

from __future__ import annotations

import os
import socket

from ..multiprocessing.api import macros

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name: str) -> str:
    """Return an environment variable; ValueError if it is not set.

    >>> from flambeau.distributed.elastic.utils import get_env_variable_or_raise
    >>> get_env_variable_or_raise("NO_SUCH_VARIABLE")
    Traceback (most recent call last):
    ValueError: Environment variable NO_SUCH_VARIABLE expected, but not set
    """
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


def get_socket_with_port() -> socket.socket:
    """Return a listening socket on a free port of this machine, to be closed before its use."""
    for family, kind, protocol, _, _ in socket.getaddrinfo(
            "localhost", None, socket.AF_UNSPEC, socket.SOCK_STREAM):
        listener = socket.socket(family, kind, protocol)
        try:
            listener.bind(("localhost", 0))
            listener.listen(0)
        except OSError:
            listener.close()
            continue
        return listener
    raise RuntimeError("Failed to create a socket")
