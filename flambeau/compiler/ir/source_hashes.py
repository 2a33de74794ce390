"""Hashes of the sources that cached programs depend on: a change in them changes the cache key."""

from __future__ import annotations

from ...native.foundation.source_hash import hash_sources


def hash_compiler_sources() -> str | None:
    """Hash the files of compiler/ and native/; None if a file cannot be read."""
    return hash_sources("compiler", "native")


def hash_library_sources() -> str | None:
    """Hash the sources that graphs are built from, such as operators and optimizer formulas; None
    if a file cannot be read."""
    return hash_sources("ops", "optim", "tensor")
