"""What `import torchvision` asks of torch: by a small package that asks for the same, and by
torchvision itself where it is installed."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.onnx import symbolic_registry

ROOT = Path(__file__).resolve().parent.parent

EXTENSION = """
import os
import torch

(file,) = [name for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".so")]
path = os.path.join(os.path.dirname(__file__), file)
try:
    torch.ops.load_library(path)
    has_ops = True
except (ImportError, OSError):
    has_ops = False
"""

REGISTRATIONS = """
import torch
import torch._custom_ops
import torch.library
from torch.onnx import symbolic_opset11 as opset11
from torch.onnx.symbolic_helper import parse_args
from torchvision import extension

ops = torch.ops.torchvision
meta = torch.library.Library("torchvision", "IMPL", "Meta")
meta.impl(getattr(ops.roi_align, "default"), lambda x, rois, s, h, w, r, a: x.new_empty(
    (rois.size(0), x.size(1), h, w)))


@torch.library.register_fake("torchvision::nms")
def fake_nms(dets, scores, iou_threshold):
    return dets.new_empty(torch._custom_ops.get_ctx().create_unbacked_symint())


@torch.library.register_fake("torchvision::qnms")
def fake_qnms(dets, scores, iou_threshold): ...


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])
    ctx.rest = (*inputs[2:5], *inputs[0].shape, *inputs[5:])


def backward(ctx, grad):
    return ops._roi_align_backward(grad, *ctx.saved_tensors, *ctx.rest), *[None] * 6


def once(ctx, *grads):
    raise RuntimeError("double backwards on roi_align not supported")


torch.library.register_autograd("torchvision::roi_align", backward, setup_context=keep)
torch.library.register_autograd("torchvision::_roi_align_backward", once)

keys = (torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
        | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA))


def autocast_roi_align(input, rois, *rest):
    with torch._C._ExcludeDispatchKeyGuard(keys):
        assert not torch.is_autocast_enabled("cpu")
        return ops.roi_align(input.float(), rois.float(), *rest).to(input.dtype)


autocast = torch.library.Library("torchvision", "IMPL")
autocast.impl("roi_align", autocast_roi_align, "AutocastCPU")
autocast.impl("roi_align", autocast_roi_align, "AutocastCUDA")


@parse_args("v", "v", "f")
def symbolic_nms(g, boxes, scores, iou_threshold):
    return opset11.unsqueeze(g, boxes, 0)


torch.onnx.register_custom_op_symbolic("torchvision::nms", symbolic_nms, 11)
"""

NAMES = """
import torch.fx
from torch import fx
from torch._C import DisableTorchFunctionSubclass
from torch._dynamo.utils import is_compile_supported
from torch.ao.quantization import DeQuantStub, QuantStub
from torch.hub import _get_torch_home, load_state_dict_from_url
from torch.jit.annotations import BroadcastingList2
from torch.nn.modules.utils import _pair
from torch.types import _device, _dtype, _size
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from torch.utils.model_zoo import tqdm

maximum = torch.jit._script_if_tracing(lambda x: x.max())


@torch.fx.wrap
def resized(x: torch.Tensor, size: BroadcastingList2[int]) -> torch.Tensor:
    return x
"""

PROGRAM = """
import torch
from torchvision import extension, names, registrations

assert extension.has_ops
assert torch.ops.torchvision._cuda_version() == -1
image = torch.ones(1, 2, 6, 6, requires_grad=True)
rois = torch.tensor([[0.0, 1.0, 1.0, 4.0, 4.0]])
call = (rois, 1.0, 2, 2, 2, True)
y = torch.ops.torchvision.roi_align(image, *call)
print(type(y.grad_fn).__name__)
(g,) = torch.autograd.grad((y * y).sum(), image, create_graph=True)
print(g.sum().item())
try:
    g.sum().backward()
except RuntimeError as error:
    print(error)
print(torch.ops.torchvision.roi_align(image.detach().to("meta"), rois.to("meta"), *call[1:]).shape)
with torch.autocast("cpu"):
    half = torch.ops.torchvision.roi_align(image.detach().bfloat16(), rois.bfloat16(), *call[1:])
    assert torch.is_autocast_enabled("cpu")
print(half.dtype)
boxes = torch.empty(3, 4, device="meta")
try:
    torch.ops.torchvision.nms(boxes, boxes[:, 0], 0.5)
except RuntimeError as error:
    print(str(error)[:58])
model = torch.nn.Sequential(names.QuantStub(), torch.nn.Linear(2, 1), names.DeQuantStub())
assert model(torch.ones(1, 2)).shape == (1, 1)
print(torch.nn.quantized.FloatFunctional().add(torch.ones(1), 1))
"""


def run(program: str, folder: Path) -> str:
    file = folder / "program.py"
    file.write_text(program)
    done = subprocess.run([sys.executable, "-m", "flambeau", str(file)], capture_output=True,
                          text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("library", ["_C.so", "_C_stable.so"])  # up to 0.28, and from 0.29 on
def test_a_package_that_imports_and_registers_what_torchvision_does(
    library: str, tmp_path: Path
) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    for name, text in (("__init__.py", ""), (library, ""), ("extension.py", EXTENSION),
                       ("registrations.py", REGISTRATIONS), ("names.py", NAMES)):
        (package / name).write_text(text)
    assert run(PROGRAM, tmp_path).splitlines() == [
        "GeneratedBackwardFor_torchvision_roi_align_defaultBackward", "16.0",
        "double backwards on roi_align not supported", "torch.Size([1, 2, 2, 2])",
        "torch.bfloat16", "You're trying to run this operator with meta Tensors (as o",
        "tensor([2.])",
    ]


def test_libraries_that_cannot_be_loaded_raise_os_errors(tmp_path: Path) -> None:
    foreign = tmp_path / "operators.so"
    foreign.write_bytes(b"")
    for path in (foreign, tmp_path / "torchvision" / "_C.so"):  # of another package, not there
        with pytest.raises(OSError, match=f"Could not load this library: {re.escape(str(path))}"):
            torch.ops.load_library(path)
        assert str(path) not in torch.ops.loaded_libraries


def test_nothing_of_it_is_imported_with_flambeau() -> None:
    program = "import flambeau, sys; print([m for m in sys.modules if 'detection' in m])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True,
                          text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["compiled_libraries", "dispatch_keys"])
def test_docstrings(name: str) -> None:
    module = importlib.import_module(f"flambeau.ops.registration.{name}")
    assert doctest.testmod(module, extraglobs={"torch": torch}).failed == 0


def test_sets_of_dispatch_keys() -> None:
    from flambeau._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard

    both = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(DispatchKey.CPU)
    assert both.has(DispatchKey.CPU)
    assert both - DispatchKeySet(DispatchKey.CPU) == DispatchKeySet(DispatchKey.AutocastCPU)
    assert repr(both.remove(DispatchKey.CPU)) == "DispatchKeySet(AutocastCPU)"
    with pytest.raises(NotImplementedError, match="for CPU"):
        _ExcludeDispatchKeyGuard(both)


def test_exporting_functions_are_recorded_and_can_be_forgotten() -> None:
    def export(g, x):
        return x

    torch.onnx.register_custom_op_symbolic("space::op", export, 11)
    assert symbolic_registry.SYMBOLICS["space::op"] == {11: export}
    torch.onnx.unregister_custom_op_symbolic("space::op", 11)
    assert symbolic_registry.SYMBOLICS["space::op"] == {}
    with pytest.raises(torch.onnx.OnnxExporterError, match="Failed to register operator op"):
        torch.onnx.register_custom_op_symbolic("op", export, 11)
    from flambeau.onnx import symbolic_opset11

    with pytest.raises(NotImplementedError, match=r"torch\.onnx\.symbolic_opset11\.squeeze"):
        symbolic_opset11.squeeze(None)


# ----------------------------------------------------------------- where torchvision is installed

needs_torchvision = pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is None or importlib.util.find_spec("PIL") is None,
    reason="torchvision is not installed",
)


@needs_torchvision
def test_torchvision_imports_and_its_operators_run(tmp_path: Path) -> None:
    program = """
import torch, torchvision
from torchvision import models, ops, tv_tensors
assert torchvision.extension._has_ops()
boxes = torch.tensor([[0., 0., 4., 4.], [0., 0., 4., 3.], [5., 5., 6., 6.]])
print(ops.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist())
torch.manual_seed(0)
model = models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights_backbone=None, min_size=64)
target = {"boxes": boxes[:2] + 8, "labels": torch.tensor([1, 2])}
losses = model([torch.rand(3, 48, 48)], [target])
sum(losses.values()).backward()
print(sorted(losses), all(p.grad is not None for p in model.roi_heads.parameters()))
print(model.eval()([torch.rand(3, 48, 48)])[0].keys())
box = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(8, 8))
print(type(box.clone()).__name__, type(box + 1).__name__, box.to(torch.float64).format.value)
"""
    assert run(program, tmp_path).splitlines() == [
        "[1, 2]", "['loss_box_reg', 'loss_classifier', 'loss_objectness', 'loss_rpn_box_reg'] True",
        "dict_keys(['boxes', 'labels', 'scores'])", "BoundingBoxes Tensor XYXY",
    ]


@needs_torchvision
def test_the_example_of_transfer_learning_learns() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", "examples/transfer_learning.py", "--epochs", "3",
         "--count", "128", "--size", "48"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert len(losses) == 3
    assert losses[-1] < losses[0] * 0.8
