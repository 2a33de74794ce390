"""torch.distributions.transforms: all transforms under the name that PyTorch has for them."""

from __future__ import annotations

from .composed_transforms import (
    CatTransform, ComposeTransform, IndependentTransform, ReshapeTransform, StackTransform,
    identity_transform,
)
from .pointwise_transforms import (
    AbsTransform, AffineTransform, CumulativeDistributionTransform, ExpTransform, PowerTransform,
    SigmoidTransform, SoftplusTransform, TanhTransform,
)
from .pointwise_transforms import _clip_sigmoid as _clip_sigmoid
from .pointwise_transforms import _clip_sigmoid as _clipped_sigmoid  # noqa: F401
from .transform import Transform, _InverseTransform
from .vector_transforms import (
    CorrCholeskyTransform, LowerCholeskyTransform, PositiveDefiniteTransform, SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "ExpTransform",
    "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform",
    "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "_InverseTransform", "identity_transform",
]
