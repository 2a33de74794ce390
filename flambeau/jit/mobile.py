"""torch.jit.mobile: PyTorch's interpreter for phones, which is C++."""

from ..tensor.absent import make_absent_getattr

__all__: list[str] = []

__getattr__ = make_absent_getattr(__name__, (
    "LiteScriptModule", "_backport_for_mobile", "_backport_for_mobile_to_buffer",
    "_export_operator_list", "_get_mobile_model_contained_types", "_get_model_bytecode_version",
    "_get_model_ops_and_info", "_load_for_lite_interpreter",
))
