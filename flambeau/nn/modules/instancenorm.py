"""Instance normalization: statistics over each channel of each sample."""

from __future__ import annotations

from typing import Any

from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Instance normalization; subclasses define the number of dimensions of a sample."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}._get_no_batch_dim")

    def _check_input_dim(self, input: Tensor) -> None:
        unbatched = self._get_no_batch_dim()
        if input.dim() != unbatched and input.dim() != unbatched + 1:
            raise ValueError(f"expected {unbatched}D or {unbatched + 1}D input (got "
                             f"{input.dim()}D input)")

    def _flambeau_check_channels(self, input: Tensor, dim: int) -> None:
        result = input.size(dim)
        if result == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features "
                f"({self.num_features}), but got: {result}."
            )
        warn(
            f"input's size at dim={dim} does not match num_features. You can silence this "
            "warning by not passing in num_features, which is not used because affine=False",
        )

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = self._get_no_batch_dim()
        self._flambeau_check_channels(input, input.dim() - unbatched)
        if input.dim() == unbatched:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)

    def _load_from_state_dict(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        # Before version 1 the running statistics were saved whether used or not.
        if local_metadata.get("version") is None and not self.track_running_stats:
            names = (prefix + name for name in ("running_mean", "running_var"))
            keys = [name for name in names if name in state_dict]
            if keys:
                error_msgs.append(self._flambeau_explain_stale(keys))
            for key in keys:
                state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )

    def _flambeau_explain_stale(self, keys: list[str]) -> str:
        names = " and ".join(f'"{key}"' for key in keys)
        name = type(self).__name__
        return (
            f"Unexpected running stats buffer(s) {names} for {name} with "
            "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, this "
            f"may be expected because {name} does not track running stats by default since 0.4.0. "
            "Please remove these keys from state_dict. If the running stats are actually needed, "
            f"instead set track_running_stats=True in {name} to enable them. See the documentation "
            f"of {name} for details."
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalize (n, c, l) or (c, l) by (x - mean) / sqrt(var + eps), with statistics over l.

    `affine` adds a learned weight and bias per channel, `track_running_stats` running statistics
    for eval mode. Raises ValueError for input of other dimensions.

    >>> nn.InstanceNorm1d(2)(torch.tensor([[[0., 2.], [10., 30.]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """

    def _get_no_batch_dim(self) -> int:
        return 2


class InstanceNorm2d(_InstanceNorm):
    """InstanceNorm1d for (n, c, h, w) or (c, h, w).

    >>> nn.InstanceNorm2d(3, affine=True)(torch.zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    def _get_no_batch_dim(self) -> int:
        return 3


class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm1d for (n, c, d, h, w) or (c, d, h, w).

    >>> nn.InstanceNorm3d(3)(torch.zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    def _get_no_batch_dim(self) -> int:
        return 4


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm1d that infers num_features from its first input; affine and tracking.

    >>> norm = nn.LazyInstanceNorm1d()
    >>> norm(torch.zeros(2, 5, 4)).shape, norm.weight.shape
    (torch.Size([2, 5, 4]), torch.Size([5]))
    """

    cls_to_become = InstanceNorm1d
    _get_no_batch_dim = InstanceNorm1d._get_no_batch_dim


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm2d that infers num_features from its first input; affine and tracking.

    >>> norm = nn.LazyInstanceNorm2d()
    >>> norm(torch.zeros(2, 5, 4, 4)).shape, norm.weight.shape
    (torch.Size([2, 5, 4, 4]), torch.Size([5]))
    """

    cls_to_become = InstanceNorm2d
    _get_no_batch_dim = InstanceNorm2d._get_no_batch_dim


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm3d that infers num_features from its first input; affine and tracking.

    >>> norm = nn.LazyInstanceNorm3d()
    >>> norm(torch.zeros(2, 5, 4, 4, 4)).shape, norm.weight.shape
    (torch.Size([2, 5, 4, 4, 4]), torch.Size([5]))
    """

    cls_to_become = InstanceNorm3d
    _get_no_batch_dim = InstanceNorm3d._get_no_batch_dim
