"""Batch normalization, and the state it shares with instance normalization."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ... import ops
from ...autograd import no_grad
from ...native.foundation.shared_constructors import copy_with_name
from ...tensor import Tensor
from ...tensor.dtypes import int64
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .utils import format_settings

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """Scale and shift per channel, and running statistics; either may be absent."""

    _version = 2  # 2 added num_batches_tracked to the state_dict
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        kind = {"device": device, "dtype": dtype}
        weight = Parameter(ops.empty(num_features, **kind)) if affine else None
        self.register_parameter("weight", weight)
        shift = Parameter(ops.empty(num_features, **kind)) if affine and bias else None
        self.register_parameter("bias", shift)
        tracks = track_running_stats
        self.register_buffer("running_mean", ops.zeros(num_features, **kind) if tracks else None)
        self.register_buffer("running_var", ops.ones(num_features, **kind) if tracks else None)
        self.register_buffer("num_batches_tracked", _create_batch_count(device) if tracks else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running statistics to mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the running statistics; weight to 1, bias to 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError(f"{type(self).__name__}._check_input_dim")

    def extra_repr(self) -> str:
        front = format_settings(self, "eps", "momentum", "affine")
        back = format_settings(self, "track_running_stats")
        return f"{self.num_features}, {front}, bias={self.bias is not None}, {back}"

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, local_metadata: dict, *rest: Any
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            usable = count is not None and count.device.type != "meta"
            state_dict[key] = count if usable else _create_batch_count(None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def _create_batch_count(device: Any) -> Tensor:
    return ops.tensor(0, dtype=int64, device=device)


class _BatchNorm(_NormBase):
    """Batch normalization over any number of dimensions."""

    __init__ = copy_with_name(_NormBase.__init__, "_BatchNorm.__init__")

    def _flambeau_average_factor(self) -> float:
        """The weight of this batch in the running statistics; counts the batch in training."""
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a cumulative average over all batches
                return 1.0 / float(self.num_batches_tracked)
        return 0.0 if self.momentum is None else self.momentum

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = self._flambeau_average_factor()
        mean, var = self.running_mean, self.running_var
        from_batch = self.training or (mean is None and var is None)
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(input, mean, var, self.weight, self.bias, from_batch, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalize each channel of (n, c) or (n, c, l) over the batch, then scale and shift.

    Computes (x - mean) / sqrt(var + eps) weight + bias, with batch statistics in training and
    running statistics in eval mode. `momentum` is the weight of a new batch in the running
    statistics; None averages all batches equally.
    Raises ValueError for input of other dimensions. Ioffe and Szegedy, 2015.

    >>> nn.BatchNorm1d(2, affine=False)(torch.tensor([[0., 1.], [2., 5.]]))
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 2 and input.dim() != 3:
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """BatchNorm1d for (n, c, h, w).

    >>> nn.BatchNorm2d(3)(torch.ones(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """BatchNorm1d for (n, c, d, h, w).

    >>> nn.BatchNorm3d(3)(torch.zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Normalization that infers num_features from its first input."""

    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        kind = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **kind, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**kind)
            if bias:
                self.bias = UninitializedParameter(**kind)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**kind)
            self.running_var = UninitializedBuffer(**kind)
            self.num_batches_tracked = _create_batch_count(device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Give parameters and buffers one element for each channel of `input`."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for value in (self.weight, self.bias, self.running_mean, self.running_var):
                if value is not None:
                    value.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """BatchNorm1d that infers num_features from its first input.

    >>> norm = nn.LazyBatchNorm1d()
    >>> _ = norm(torch.zeros(2, 5))
    >>> norm
    BatchNorm1d(5, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """BatchNorm2d that infers num_features from its first input.

    >>> norm = nn.LazyBatchNorm2d()
    >>> norm(torch.zeros(2, 5, 4, 4)).shape, norm.num_features
    (torch.Size([2, 5, 4, 4]), 5)
    """

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """BatchNorm3d that infers num_features from its first input.

    >>> norm = nn.LazyBatchNorm3d()
    >>> norm(torch.zeros(2, 5, 4, 4, 4)).shape, norm.num_features
    (torch.Size([2, 5, 4, 4, 4]), 5)
    """

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim


def _process_count(process_group: Any) -> int:
    """The number of processes that share statistics. Not imported: distributed is above nn."""
    distributed = sys.modules.get(f"{__name__.split('.')[0]}.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return distributed.get_world_size(process_group)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of (n, c, *) with statistics computed across all processes.

    With one process it equals BatchNorm. Every process must run it in each step.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
    >>> nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
    SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _check_non_zero_input_channels(self, input: Tensor) -> None:
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        shares = self.training or self.running_mean is None
        if not shares or _process_count(self.process_group) == 1:
            return super().forward(input)
        momentum = self._flambeau_average_factor()
        tracked = (self.running_mean, self.running_var) if self.training else (None, None)
        # Imported by name, because distributed is a layer above nn.
        return importlib.import_module("flambeau.distributed.nn.sync_batch_norm").sync_batch_norm(
            input, self.weight, self.bias, *tracked, self.eps, momentum, self.process_group
        )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return `module` with every BatchNorm replaced by an equivalent SyncBatchNorm."""
        result = module
        if isinstance(module, _BatchNorm):
            result = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                with no_grad():
                    result.weight = module.weight
                    result.bias = module.bias
            result.running_mean = module.running_mean
            result.running_var = module.running_var
            result.num_batches_tracked = module.num_batches_tracked
            result.training = module.training
            if hasattr(module, "qconfig"):
                result.qconfig = module.qconfig
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
