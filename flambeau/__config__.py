"""torch.__config__: how this build came about."""

from __future__ import annotations

import importlib.metadata
import platform

__all__ = ["parallel_info", "show"]


def show() -> str:
    """What flambeau stands on, a line each."""
    lines = [f"flambeau built with:\n  - Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "llvmlite", "ml_dtypes"):
        try:
            lines.append(f"  - {name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"  - {name} missing")
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """How many threads there are."""
    from ._namespace.settings import get_num_interop_threads, get_num_threads

    return (f"ATen/Parallel:\n\tat::get_num_threads() : {get_num_threads()}\n"
            f"\tat::get_num_interop_threads() : {get_num_interop_threads()}\n")
