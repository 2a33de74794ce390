"""Operators of object detection: suppressed boxes, resampled regions, deformable convolution.

They are not imported with flambeau: torchvision asks for them by the name of its compiled library,
and they become `torch.ops.torchvision.*` with its schemas
(`ops/registration/compiled_libraries.py`).
"""

from .boxes import nms
from .deform_conv import deform_conv2d, deform_conv2d_backward
from .roi_align import (
    ps_roi_align, ps_roi_align_backward, roi_align, roi_align_backward,
)
from .roi_pool import ps_roi_pool, ps_roi_pool_backward, roi_pool, roi_pool_backward
from .rotated_boxes import box_iou_rotated

NAMESPACE = "torchvision"
OPERATORS = (
    nms, box_iou_rotated, roi_align, roi_align_backward, ps_roi_align, ps_roi_align_backward,
    roi_pool, roi_pool_backward, ps_roi_pool, ps_roi_pool_backward, deform_conv2d,
    deform_conv2d_backward,
)
# What takes quantized tensors, and the CUDA that the library was built with (-1: none).
SCHEMAS = {
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": None,
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, "
    "float rois_scale, int rois_zero_point, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor": None,
    "_cuda_version() -> int": lambda: -1,
}
