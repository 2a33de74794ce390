"""torch.utils.cpp_extension: imports, and refuses to build. Programs that have a way without their
extension take it when building fails."""

from __future__ import annotations

from ..tensor.absent import make_absent_getattr

CUDA_HOME = CUDNN_HOME = ROCM_HOME = SYCL_HOME = None
IS_HIP_EXTENSION = IS_WINDOWS = False

__getattr__ = make_absent_getattr(__name__, (
    "BuildExtension", "CppExtension", "CUDAExtension", "SyclExtension", "include_paths",
    "library_paths", "load", "load_inline", "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version", "get_default_build_root", "is_ninja_available",
    "verify_ninja_availability",
))
