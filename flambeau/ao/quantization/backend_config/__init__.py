"""torch.ao.quantization.backend_config: the patterns that a backend can quantize."""

from ....tensor.absent import make_absent_getattr
from .backend_config import (
    BackendConfig, BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType,
)
from .native import (
    get_fbgemm_backend_config, get_native_backend_config, get_native_backend_config_dict,
    get_qnnpack_backend_config, get_x86_backend_config,
)
from .onednn import get_onednn_backend_config

__all__ = [
    "BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints",
    "ObservationType", "get_fbgemm_backend_config", "get_native_backend_config",
    "get_native_backend_config_dict", "get_onednn_backend_config", "get_qnnpack_backend_config",
    "get_x86_backend_config",
]

__getattr__ = make_absent_getattr(__name__, (
    "get_executorch_backend_config", "get_tensorrt_backend_config",
    "get_tensorrt_backend_config_dict",
))
