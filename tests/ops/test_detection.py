"""Operators of object detection: what the generated tests of the registry do not say."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops import detection
from flambeau.ops.registration import custom_operators as custom
from flambeau.ops.registration.compiled_libraries import register


@pytest.fixture(scope="module")
def vision():
    """torch.ops.torchvision, as torchvision's compiled library registers it."""
    if not custom.get_namespace("torchvision")._packets:
        register(detection)
    return torch.ops.torchvision


REGION = torch.tensor([[0.0, 0.0, 0.0, 2.0, 2.0]])


@pytest.mark.parametrize("function", detection.OPERATORS, ids=lambda f: f.operator.name)
def test_example(function) -> None:
    test = doctest.DocTestParser().get_doctest(
        function.operator.doc, {"torch": torch}, function.operator.name, None, None
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0


def test_schemas_are_those_of_the_compiled_library(vision) -> None:
    assert str(vision.roi_align.default._schema) == (
        "torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, "
        "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"
    )
    assert str(vision._deform_conv2d_backward.default._schema) == (
        "torchvision::_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, "
        "Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, "
        "SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
        "bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    )


def test_a_threshold_is_compared_in_double_precision(vision) -> None:
    # The overlap is float32's number nearest to 0.7, which is below 0.7.
    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.7]])
    assert vision.nms(boxes, torch.tensor([1.0, 0.5]), 0.7).tolist() == [0, 1]
    assert vision.nms(boxes, torch.tensor([1.0, 0.5]), 0.69).tolist() == [0]


def test_boxes_of_no_area_and_equal_scores_keep_their_order(vision) -> None:
    boxes = torch.tensor([[1.0, 1.0, 1.0, 1.0]] * 3 + [[0.0, 0.0, 2.0, 2.0]])
    assert vision.nms(boxes, torch.tensor([0.5, 0.7, 0.5, 0.5]), 0.5).tolist() == [1, 0, 2, 3]


def test_many_boxes_are_compared_in_blocks(vision) -> None:
    """Every third of 3,000 boxes in a row overlaps no other one that is kept."""
    left = torch.arange(3000.0)
    boxes = torch.stack([left, left * 0, left + 3, left * 0 + 1], 1)
    expected = list(range(0, 3000, 3))
    assert vision.nms(boxes, -left, 0.19).tolist() == expected
    assert vision.nms(boxes, -left, 0.5).tolist() == list(range(3000))


def test_the_adjoint_of_means_counts_the_last_row_and_column(vision) -> None:
    """As torchvision 0.28 does, whose forward pass leaves them out."""
    image, region = torch.zeros(1, 1, 3, 3), torch.tensor([[0.0, 0.0, 0.0, 3.0, 3.0]])
    g = torch.full((1, 1, 1, 1), 9.0)
    mapping = vision.ps_roi_pool(image, region, 1.0, 1, 1)[1]
    actual = vision._ps_roi_pool_backward(g, region, mapping, 1.0, 1, 1, 1, 1, 3, 3)
    assert actual.tolist() == [[[[1.0] * 3] * 3]]


@pytest.mark.parametrize("call, error, text", [
    (lambda v: v.nms(torch.ones(3, 5), torch.ones(3), 0.5), RuntimeError,
     "boxes should have 4 elements in dimension 1, got 5"),
    (lambda v: v.nms(torch.ones(3, 4), torch.ones(4), 0.5), RuntimeError, "got 3 and 4"),
    (lambda v: v.nms(torch.ones(3, 4), torch.ones(3).double(), 0.5), RuntimeError,
     "dets should have the same type as scores"),
    (lambda v: v.nms(torch.ones(3, 4).half(), torch.ones(3).half(), 0.5), NotImplementedError,
     "\"nms_kernel\" not implemented for 'Half'"),
    (lambda v: v.roi_align(torch.ones(1, 1, 4, 4).bfloat16(), REGION.bfloat16(), 1., 2, 2, 0, True),
     NotImplementedError, "\"roi_align_forward_kernel\" not implemented for 'BFloat16'"),
    (lambda v: v.roi_align(torch.ones(1, 1, 4, 4), REGION[:, :4], 1., 2, 2, 0, True), RuntimeError,
     r"rois must have shape as Tensor\[K, 5\]"),
    (lambda v: v.roi_pool(torch.ones(1, 1, 4, 4).double(), REGION, 1., 2, 2), RuntimeError,
     "but type torch.DoubleTensor does not equal torch.FloatTensor"),
    (lambda v: v.roi_pool(torch.ones(1, 1, 4, 4), REGION + 1, 1., 2, 2), IndexError, "image 1"),
    (lambda v: v.ps_roi_pool(torch.ones(1, 3, 4, 4), REGION, 1., 2, 2), RuntimeError,
     "input channels must be a multiple of pooling height"),
    (lambda v: v.deform_conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3),
                               torch.ones(1, 18, 3, 3), torch.zeros(1, 1), torch.zeros(1), 1, 1, 0,
                               0, 1, 1, 1, 1, False), RuntimeError,
     r"offset output dims: \(3, 3\) - computed output dims: \(2, 2\)"),
    (lambda v: v.qnms(torch.ones(1, 4), torch.ones(1), 0.5), NotImplementedError, "qnms"),
])
def test_refusals(vision, call, error, text) -> None:
    with pytest.raises(error, match=text):
        call(vision)


def test_shapes_on_meta_tensors(vision) -> None:
    image, region = torch.empty(2, 4, 8, 8, device="meta"), torch.empty(3, 5, device="meta")
    y, which = detection.roi_pool(image, region, 1.0, 2, 2)
    assert (y.shape, which.dtype) == ((3, 4, 2, 2), torch.int32)
    assert detection.roi_align(image, region, 1.0, 2, 3, 0, True).shape == (3, 4, 2, 3)


def test_rotated_boxes_by_area(vision) -> None:
    # A square on a corner, seen against an upright one: an octagon of 8 * (sqrt(2) - 1).
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0, 45.0], [3.0, 0.0, 4.0, 2.0, 90.0]])
    octagon = 8 * (np.sqrt(2) - 1)
    actual = vision.box_iou_rotated(torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]]), boxes)
    np.testing.assert_allclose(actual.numpy(), [[octagon / (8 - octagon), 0]], atol=1e-6)
    # A thin box across another: a common part of 2 * 2 in 8 + 8 - 4.
    thin = torch.tensor([[0.0, 0.0, 4.0, 2.0, 30.0]]), torch.tensor([[0.0, 0.0, 2.0, 4.0, 30.0]])
    assert vision.box_iou_rotated(*thin).item() == pytest.approx(4 / 12, abs=1e-6)


def test_half_precision(vision) -> None:
    image = torch.arange(16.0).reshape(1, 1, 1, 16).half()
    region = torch.tensor([[0.0, 0.0, 0.0, 15.0, 0.0]]).half()
    y, at = vision.roi_pool(image, region, 0.5, 1, 2)
    assert (y.dtype, y.tolist(), at.tolist()) == (torch.float16, [[[[4.0, 8.0]]]], [[[[4, 8]]]])


def test_nan_is_the_best_score_and_a_negative_threshold_drops_all_others(vision) -> None:
    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0], [9.0, 9.0, 10.0, 10.0], [3.0, 3.0, 4.0, 4.0]])
    assert vision.nms(boxes, torch.tensor([1.0, float("nan"), 2.0]), 0.5).tolist() == [1, 2, 0]
    assert vision.nms(boxes, torch.tensor([1.0, 3.0, 2.0]), -1.0).tolist() == [1]


def test_maxima_pass_over_nan_and_what_is_not_above_the_lowest_number(vision) -> None:
    nan, inf = float("nan"), float("inf")
    image = torch.tensor([[[[1.0, nan, 3.0], [nan, nan, -inf], [0.0, 2.0, inf]]]])
    rois = torch.tensor([[0, 0, 0, 1, 0], [0, 0, 0, 2, 2], [0, 0, 1, 1, 1], [0, 2, 1, 2, 1.0]])
    y, at = vision.roi_pool(image, rois, 1.0, 1, 1)
    lowest = torch.finfo(torch.float32).min
    assert y.flatten().tolist() == [1, inf, lowest, lowest]
    assert at.flatten().tolist() == [0, 8, -1, -1]
