"""`flambeau env`: versions, processor, threads, caches and settings, to paste into a bug report."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from ..native.foundation import environment
from ..version import _flambeau_version as own_version
from . import cache
from .torch_alias import TORCH_VERSION

_PACKAGES = ("numpy", "scipy", "llvmlite", "ml_dtypes")


def main(args: list[str]) -> int:
    """Run `flambeau env`; returns the exit code."""
    if args:
        print("usage: flambeau env", file=sys.stderr)
        return 2
    rows = describe()
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")
    return 0


def describe() -> dict[str, str]:
    """Return what a bug report needs, as name: text."""
    import flambeau

    return {
        "flambeau": f"{own_version} (follows PyTorch {TORCH_VERSION})",
        "source": os.path.dirname(os.path.abspath(flambeau.__file__)),
        "import torch": _describe_torch(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: _version(name) for name in _PACKAGES},
        "system": platform.platform(),
        "processor": _read_processor(),
        "code for": _describe_target(),
        "threads": f"{flambeau.get_num_threads()} of {os.cpu_count()} processors",
        "BLAS": _describe_blas(),
        "cache": cache.format_summary(),
        "flags": _list_flags(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _describe_torch() -> str:
    """Return what `import torch` imports in this environment's plain `python`."""
    from . import alias

    package = alias.find_imported_torch()
    if package is None:
        return "not found; `flambeau SCRIPT` or `flambeau alias install` provide it"
    if alias.is_alias(package):
        return f"flambeau, by the alias in {package.parent}"
    return f"PyTorch in {package}"


def _read_processor() -> str:
    """Return the processor's name as reported by the system."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("model name", "Model")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _describe_target() -> str:
    """Return the target of compilation: processor name, vector width and cache sizes."""
    from ..native.target.machine import host

    try:
        target = host()
    except Exception as error:  # llvmlite is missing or broken: report it and continue
        return f"unknown ({error})"
    l2_kb, llc_mb = target.l2_bytes >> 10, target.llc_bytes >> 20
    caches = f"{l2_kb} KB second-level, {llc_mb} MB last-level cache"
    return f"{target.cpu}, vectors of {target.vector_bytes} bytes, {caches}"


def _describe_blas() -> str:
    import numpy as np

    config = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {}) if config else {}
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _list_flags() -> str:
    """Return the flambeau environment variables that are set."""
    names = [flag.name for flag in environment.FLAGS]
    shown = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    return " ".join(shown) or "none set"
