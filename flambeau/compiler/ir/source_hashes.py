"""Hashes of the sources that stored programs depend on: another version of them is another key."""

from __future__ import annotations

from ...native.foundation.source_hash import hash_sources


def hash_compiler_sources() -> str | None:
    """A hash of the files of compiler/ and native/; None if a file cannot be read."""
    return hash_sources("compiler", "native")


def hash_library_sources() -> str | None:
    """A hash of the sources that graphs are built from: operator bodies, optimizer formulas."""
    return hash_sources("ops", "optim", "tensor")
