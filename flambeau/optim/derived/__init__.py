"""What optimizers that were derived from PyTorch's import and call: names of torch.optim.optimizer.

flambeau's own optimizers need none of it: they have their steps, choices and prose in one place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ... import ops
from ...autograd import set_grad_enabled
from ...native.foundation.user_frames import warn
from ...tensor import Tensor, get_default_dtype
from ...tensor.dtypes import dtype as Dtype
from ...tensor.dtypes import float32, float64

DeviceDict: TypeAlias = dict[Any, Tensor]
DeviceDtypeDict: TypeAlias = dict[tuple[Any, Dtype] | None, Tensor]

_foreach_supported_types = [Tensor]
_FUSED_DEVICES = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]

_params_doc = "params (iterable): parameters, named parameters or dicts of parameter groups"
_foreach_doc = "foreach (bool, optional): whether all tensors are updated by each operator at once"
_fused_doc = "fused (bool, optional): whether the step is one kernel"
_capturable_doc = "capturable (bool, optional): whether a CUDA graph may hold the step"
_differentiable_doc = "differentiable (bool, optional): whether autograd goes through the step"
_maximize_doc = "maximize (bool, optional): whether the objective is maximized"


class GraphCaptureChecks:
    """Methods that steps derived from PyTorch's call on the optimizer itself."""

    def _accelerator_graph_capture_health_check(self) -> None:
        """No-op: there is no graph of a GPU that could hold the step."""

    def _cuda_graph_capture_health_check(self) -> None:
        """The same under its older name, with a DeprecationWarning."""
        warn("Use _accelerator_graph_capture_health_check instead", DeprecationWarning)

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
    ) -> dict[Any, tuple[list[list[Tensor | None]], list[int]]]:
        """Return columns of equal lists by the device and dtype of the first list's tensors."""
        groups: dict[Any, tuple[list[list[Tensor | None]], list[int]]] = {}
        for i, column in enumerate(zip(*tensorlistlist, strict=True)):
            first: Any = column[0]
            rows, indices = groups.setdefault(
                (first.device, first.dtype), ([[] for _ in tensorlistlist], []))
            for row, tensor in zip(rows, column, strict=True):
                row.append(tensor)
            if with_indices:
                indices.append(i)
        return groups


def _use_grad_for_differentiable(step: Callable) -> Callable:
    """Return `step` run with gradients only if the optimizer is differentiable."""
    @functools.wraps(step)
    def stepped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return stepped


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable | None = None
) -> Callable[[Callable], Callable]:
    """Return a decorator without effect: on a CPU every step may be compiled."""
    return lambda step: step


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return (fused, foreach), the implementation of an optimizer on a CPU."""
    fused = not differentiable and use_fused and all(
        p is None or p.is_floating_point() for p in params)
    return fused, False


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    """Raise RuntimeError if a parameter's device or dtype has no fused step."""
    devices = [name for name in _FUSED_DEVICES if not (cuda_unsupported and name == "cuda")]
    if p.device.type not in devices or not p.is_floating_point():
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of "
                           f"supported devices: {devices} but {p.dtype} and {p.device.type}")


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the types of devices whose graphs can hold a step; none of them is here."""
    return ["cuda", "xpu", "hpu", "privateuseone", *["xla"] * supports_xla]


def _get_scalar_dtype(is_fused: bool | None = None) -> Dtype:
    """Return the dtype of step counters: float64 if that is the default dtype, else float32."""
    return float64 if get_default_dtype() is float64 and not is_fused else float32


def _get_value(x: Any) -> Any:
    """Return a hyperparameter as a Python number."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    """Return a list of tensors as it is; PyTorch stacks it while it traces."""
    return x


def _to_scalar(x: Any) -> Any:
    """Return a tensor of one element without axes, and a number as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace complex parameters, and what belongs to them, by views of their two parts."""
    for i, param in enumerate(params):
        if param.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[i] = ops.view_as_real(tensors[i])
