"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes that spends less on rare ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import ops
from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from .container import ModuleList, Sequential
from .linear import Linear

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Softmax over many classes, sorted from frequent to rare and split at `cutoffs`.

    The head predicts the shortlist and the cluster; cluster i uses features reduced by
    div_value^(i + 1). Input (n, in_features) and target (n), or unbatched; return `output`, the
    log-probability of each target, and `loss`, its negated mean.
    Raises ValueError for cutoffs that are not increasing integers in 1..n_classes - 1, RuntimeError
    for shapes or targets that do not fit. Grave et al., 2017.

    >>> loss = nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 50])
    >>> output = loss(torch.zeros(4, 16), torch.tensor([0, 9, 10, 99]))
    >>> output.output.shape, output.loss.shape
    (torch.Size([4]), torch.Size([]))
    >>> loss.log_prob(torch.zeros(4, 16)).shape
    torch.Size([4, 100])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        self._flambeau_check_cutoffs(cutoffs, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        factory_kwargs = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory_kwargs)
        self.tail = ModuleList()
        for i, (start, end) in enumerate(itertools.pairwise(self.cutoffs)):
            reduced = int(in_features // div_value ** (i + 1))
            down = Linear(in_features, reduced, bias=False, **factory_kwargs)
            up = Linear(reduced, end - start, bias=False, **factory_kwargs)
            self.tail.append(Sequential(down, up))

    @staticmethod
    def _flambeau_check_cutoffs(cutoffs: list[int], n_classes: int) -> None:
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        increasing = all(a < b for a, b in itertools.pairwise(cutoffs))
        within = cutoffs[0] > 0 and cutoffs[-1] <= n_classes - 1
        if not increasing or not within or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an "
                "increasing order, where each value is between 1 and n_classes-1"
            )

    def reset_parameters(self) -> None:
        """Reinitialize the head, then each cluster."""
        self.head.reset_parameters()
        pairs: Any = self.tail  # a ModuleList of Sequentials, two modules each
        for down, up in pairs:
            down.reset_parameters()
            up.reset_parameters()

    @staticmethod
    def _flambeau_check_shapes(input: Tensor, target: Tensor) -> None:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.dim() == 1 and input.size(0) != target.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        expected = target.dim() + 1
        if input.dim() != expected:
            raise RuntimeError(
                f"{target.dim()}D target tensor expects {expected}D input tensors, "
                f"but found inputs with size {input.size()}"
            )

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        self._flambeau_check_shapes(input_, target_)
        batched = target_.dim() == 1
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        if bool(((target < 0) | (target >= self.n_classes)).any()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        output = input.new_zeros(target.size(0))
        head_column = target.clone()  # the column of the class, or of its cluster
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            head_column.index_fill_(0, rows, self.shortlist_size + i)
            within = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            relative = target.index_select(0, rows) - low
            output.index_copy_(0, rows, within.gather(1, relative.unsqueeze(1)).squeeze(1))
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, head_column.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        log_probs = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            chosen = head[:, self.shortlist_size + i].unsqueeze(1)
            log_probs.append(F.log_softmax(cluster(input), dim=1) + chosen)
        return ops.cat(log_probs, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes: (n, in_features) to (n, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the likeliest class of each row, (n); clusters are evaluated only if likely."""
        head_output = self.head(input)
        output = ops.argmax(head_output, dim=1)
        is_in_cluster = output >= self.shortlist_size
        if bool(is_in_cluster.any()):
            log_probs = self._get_full_log_prob(input[is_in_cluster], head_output[is_in_cluster])
            output[is_in_cluster] = ops.argmax(log_probs, dim=1)
        return output
