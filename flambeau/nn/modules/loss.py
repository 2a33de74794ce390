"""Losses. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are deprecated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...native.foundation.public_names import class_of
from ...native.foundation.shared_constructors import own_constructor
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from .. import _reduction
from .. import functional as F
from ..module import Module
from .distance import PairwiseDistance
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Loss(Module):
    """Base class that holds the reduction."""

    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = self._flambeau_legacy_reduction(size_average, reduce)
        self.reduction = reduction

    def _flambeau_legacy_reduction(self, size_average: Any, reduce: Any) -> str:
        try:
            return _reduction.legacy_get_string(size_average, reduce)
        except RuntimeError as error:
            if isinstance(size_average, Tensor) or isinstance(reduce, Tensor):
                name = self._get_name()
                error.add_note(f"nn.{name} is a class: construct it first, nn.{name}()(input, "
                               f"target), or call the function in nn.functional")
            raise


class _WeightedLoss(_Loss):
    """Base class that holds the reduction and a weight, which is a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class _MarginLoss(_Loss):
    """Base class that holds the reduction and a margin."""

    __init_subclass__ = own_constructor

    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class L1Loss(_Loss):
    """Absolute error, |input - target|.

    >>> nn.L1Loss()(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared error, (input - target)^2.

    >>> nn.MSELoss()(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Smooth L1: 0.5 d^2 / beta if d = |input - target| < beta, else d - 0.5 beta.

    >>> nn.SmoothL1Loss(reduction="none")(torch.tensor([0.5, 4.]), torch.zeros(2))
    tensor([0.1250, 3.5000])
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Huber loss: 0.5 d^2 if d = |input - target| < delta, else delta (d - 0.5 delta).

    Raises TypeError for a delta that is not a number.

    >>> nn.HuberLoss(reduction="none", delta=2.)(torch.tensor([1., 4.]), torch.zeros(2))
    tensor([0.5000, 6.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, float | int):
            raise TypeError(f"delta must be a float or int, got: {class_of(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood, -weight[target] input[target].

    input (n, c, *) holds log-probabilities, target (n, *) class indices. Targets equal to
    `ignore_index` are skipped; "mean" divides by the sum of the remaining weights.

    >>> nn.NLLLoss()(torch.tensor([[-0.5, -1.], [-2., -0.1]]), torch.tensor([0, 1]))
    tensor(0.3000)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """Deprecated name of NLLLoss.

    >>> nn.NLLLoss2d()(torch.full((1, 3, 2, 2), -0.5), torch.zeros(1, 2, 2, dtype=torch.int64))
    tensor(0.5000)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement and see https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss "
            "for more details.",
            FutureWarning,
        )
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy, NLLLoss of log_softmax(input): logits (n, c, *), classes (n, *).

    The target may also be probabilities, shaped like the input. `label_smoothing` mixes it with
    the uniform distribution.

    >>> nn.CrossEntropyLoss()(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """Cross entropy of a linear layer, without holding all the logits at once.

    Input (n, in_features), target (n, *out_features) of class indices. Raises RuntimeError for a
    weight that is not (num_classes) or a label_smoothing outside [0, 1].

    >>> loss = nn.LinearCrossEntropyLoss(4, 10)
    >>> loss.linear.weight.shape, loss(torch.zeros(3, 4), torch.tensor([0, 5, 9])).shape
    (torch.Size([10, 4]), torch.Size([]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        width = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, width, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        values = {
            "in_features": self.linear.in_features,
            "num_classes": self.num_classes,
            "out_features": self.out_features,
            "bias": self.linear.bias is not None,
            "reduction": self.reduction,
            "ignore_index": self.ignore_index,
            "label_smoothing": self.label_smoothing,
            "options": self.options,
        }
        return ", ".join(f"{name}={value}" for name, value in values.items())


class PoissonNLLLoss(_Loss):
    """Poisson negative log-likelihood, exp(input) - target input.

    Without `log_input` it is input - target log(input + eps). `full` adds Stirling's approximation
    of log(target!).

    >>> nn.PoissonNLLLoss()(torch.zeros(2), torch.tensor([1., 2.]))
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Gaussian loss, 0.5 (log(var) + (input - target)^2 / var), with var at least eps.

    `full` adds the constant 0.5 log(2 pi).

    >>> nn.GaussianNLLLoss()(torch.zeros(2), torch.tensor([1., 3.]), torch.ones(2))
    tensor(2.5000)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """KL divergence, target (log(target) - input), for input of log-probabilities.

    "batchmean" is the true divergence per batch element. With `log_target` the target is
    log-probabilities too.

    >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
    >>> nn.KLDivLoss(reduction="batchmean")(q.log(), p)
    tensor(0.1438)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities.

    It is -weight (target log(input) + (1 - target) log(1 - input)).

    >>> nn.BCELoss()(torch.tensor([0.5, 0.5]), torch.tensor([0., 1.]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """BCELoss of sigmoid(input), without overflow; `pos_weight` weights positive targets.

    >>> nn.BCEWithLogitsLoss()(torch.zeros(3), torch.tensor([0., 1., 1.]))
    tensor(0.6931)
    """

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )


class SoftMarginLoss(_Loss):
    """Logistic loss, log(1 + exp(-target input)), for targets 1 or -1.

    >>> nn.SoftMarginLoss()(torch.tensor([0., 100.]), torch.tensor([1., 1.]))
    tensor(0.3466)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class HingeEmbeddingLoss(_MarginLoss):
    """Hinge loss: input if target is 1, max(0, margin - input) if it is -1.

    >>> nn.HingeEmbeddingLoss(reduction="none")(torch.tensor([0.3, 0.3]), torch.tensor([1, -1]))
    tensor([0.3000, 0.7000])
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """Cosine loss: 1 - cos(input1, input2) if target is 1, max(0, cos - margin) if it is -1.

    >>> x, y = torch.tensor([[1., 0.], [1., 0.]]), torch.tensor([[0., 1.], [2., 0.]])
    >>> nn.CosineEmbeddingLoss(reduction="none")(x, y, torch.tensor([1, -1]))
    tensor([1., 1.])
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_MarginLoss):
    """Ranking loss, max(0, -target (input1 - input2) + margin), for targets 1 or -1.

    >>> x, y = torch.tensor([1., 1.]), torch.tensor([3., 3.])
    >>> nn.MarginRankingLoss(reduction="none")(x, y, torch.tensor([1, -1]))
    tensor([2., 0.])
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """Multi-class hinge loss; p is 1 or 2.

    It is the sum over i != target of max(0, margin - input[target] + input[i])^p / c.
    Raises ValueError for another p or a weight that is not 1-D.

    >>> nn.MultiMarginLoss()(torch.tensor([[0.1, 0.2, 0.9]]), torch.tensor([2]))
    tensor(0.1667)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                "MultiMarginLoss: expected weight to be None or 1D tensor, "
                f"got {weight.dim()}D instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """Multi-label hinge loss, sum of max(0, 1 - input[j] + input[i]) / c.

    It runs over target classes j and all other classes i. The target lists classes, up to the
    first -1.

    >>> nn.MultiLabelMarginLoss()(torch.tensor([[0.1, 0.2, 0.8]]), torch.tensor([[2, 0, -1]]))
    tensor(0.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """BCEWithLogitsLoss averaged over the classes of (n, c).

    >>> nn.MultiLabelSoftMarginLoss()(torch.zeros(1, 3), torch.tensor([[1., 0., 1.]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


def _require_positive_margin(loss: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{loss}: expected margin to be greater than 0, got {margin} instead")


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), for the p-norm d.

    `swap` uses d(positive, negative) if it is smaller. Raises ValueError for a margin <= 0.

    >>> anchor, near, far = torch.tensor([[0.], [1.], [2.5]]).unsqueeze(1)
    >>> nn.TripletMarginLoss(margin=2.)(anchor, near, far)
    tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _require_positive_margin("TripletMarginLoss", margin)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a custom distance; by default PairwiseDistance.

    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: abs(x - y).sum(-1))
    >>> loss(torch.zeros(1, 2), torch.ones(1, 2), torch.full((1, 2), 1.25))
    tensor(0.5000)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _require_positive_margin("TripletMarginWithDistanceLoss", margin)
        self.distance_function = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """-log of the probability of a target sequence, summed over all its alignments.

    log_probs (t, n, c), targets (n, s) or concatenated, lengths (n); `zero_infinity` gives 0 if
    the target does not fit. Graves et al., 2006.

    >>> log_probs = torch.zeros(5, 1, 3).log_softmax(2)  # class 0 is the blank
    >>> nn.CTCLoss()(log_probs, torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2]))
    tensor(0.9689)
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
