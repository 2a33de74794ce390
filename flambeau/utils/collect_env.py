"""torch.utils.collect_env: print version information for bug reports.

    python -m flambeau.utils.collect_env
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import NamedTuple

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

_ABSENT, _NOT_COLLECTED = "N/A", "Could not collect"
_LIBRARIES = ("numpy", "scipy", "llvmlite", "ml_dtypes", "torchvision", "torchmetrics",
              "lightning", "transformers", "timm")


class SystemEnv(NamedTuple):
    """System information, with PyTorch's field names."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    gcc_version: str
    clang_version: str
    cmake_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cuda_runtime_version: str
    cuda_module_loading: str
    nvidia_driver_version: str
    nvidia_gpu_models: str
    cudnn_version: str
    is_xpu_available: str
    pip_version: str
    pip_packages: str
    conda_packages: str
    hip_compiled_version: str
    hip_runtime_version: str
    miopen_runtime_version: str
    caching_allocator_config: str
    is_xnnpack_available: str
    cpu_info: str


_LINES = {
    "PyTorch version": "torch_version", "OS": "os", "Libc version": "libc_version",
    "Python version": "python_version", "Python platform": "python_platform",
    "Is CUDA available": "is_cuda_available", "CPU": "cpu_info",
}


def get_env_info() -> SystemEnv:
    """Return system information. Unknown fields are "N/A" or "Could not collect".

    >>> torch.utils.collect_env.get_env_info().is_cuda_available
    'False'
    """
    fields = {
        "torch_version": sys.modules[__name__.partition(".")[0]].__version__,
        "is_debug_build": "False",
        "os": platform.platform(), "libc_version": "-".join(platform.libc_ver()),
        "python_version": f"{sys.version.replace(chr(10), ' ')} ({sys.maxsize.bit_length() + 1}-bit"
                          " runtime)",
        "python_platform": platform.platform(), "is_cuda_available": "False",
        "is_xpu_available": "False", "is_xnnpack_available": "False", "pip_version": "pip3",
        "pip_packages": "\n".join(f"{name}=={_version(name)}" for name in _LIBRARIES
                                  if _version(name) != _ABSENT),
        "cpu_info": f"{platform.machine()}, {os.cpu_count()} processors",
        "cuda_compiled_version": "None", "conda_packages": "",
        "hip_compiled_version": _ABSENT, "hip_runtime_version": _ABSENT,
        "miopen_runtime_version": _ABSENT, "caching_allocator_config": _ABSENT,
        "cuda_module_loading": _ABSENT,
    }
    return SystemEnv(*(fields.get(field, _NOT_COLLECTED) for field in SystemEnv._fields))


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return _ABSENT


def get_pretty_env_info() -> str:
    """Format the system information for a report."""
    result = get_env_info()
    lines = [f"{title}: {getattr(result, field)}" for title, field in _LINES.items()]
    packages = [f"[pip3] {package}" for package in result.pip_packages.splitlines()]
    return "\n".join([*lines, "", "Versions of relevant libraries:", *packages])


def main() -> None:
    """Print the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
