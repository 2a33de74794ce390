"""Smooth stand-ins for categories: Concrete, or Gumbel-softmax, distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..tensor.tensor import Tensor
from . import constraints
from .combined import TransformedDistribution
from .constraints import Constraint
from .discrete import Binary, Categorical, CategoricalForm
from .distribution import EVENTLESS, broadcast_all, clamp_probs
from .transforms import ExpTransform, SigmoidTransform


class LogitRelaxedBernoulli(Binary):
    """The logit of RelaxedBernoulli.

    >>> D = torch.distributions
    >>> D.LogitRelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.1, 0.9])).rsample().shape
    torch.Size([2])
    """

    support = constraints.real
    has_rsample = True
    _flambeau_unexpanded = frozenset({"temperature"})

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        (result,) = self._flambeau_hold(probs, logits)
        super().__init__(result.shape, validate_args=validate_args)
        self.temperature = temperature

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape = self._extended_shape(sample_shape)
        p = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(ops.rand(shape, dtype=p.dtype))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value.mul(self.temperature)
        return self.temperature.log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Between 0 and 1, nearer to them as the temperature falls.

    Maddison et al., 2016; Jang et al., 2016.

    >>> D = torch.distributions
    >>> draw = D.RelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.5])).rsample()
    >>> bool((0 < draw) & (draw < 1))
    True
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """How smooth it is."""
        return self.base_dist.temperature  # type: ignore[attr-defined]

    @property
    def probs(self) -> Tensor:
        """The probability of yes."""
        return self.base_dist.probs  # type: ignore[attr-defined]

    @property
    def logits(self) -> Tensor:
        """log(p / (1 - p))."""
        return self.base_dist.logits  # type: ignore[attr-defined]


class ExpRelaxedCategorical(CategoricalForm):
    """The logarithm of RelaxedOneHotCategorical."""

    support = constraints.real_vector
    has_rsample = True
    _flambeau_unexpanded = frozenset({"temperature"})

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        logits = self._categorical.logits
        u = clamp_probs(ops.rand(self._extended_shape(sample_shape), dtype=logits.dtype))
        scores = (logits + -((-(u.log())).log())) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self._event_shape[0]
        self._validate_sample(value)
        logits, value = broadcast_all(self._categorical.logits, value)
        level = math.lgamma(k) - self.temperature.log().mul(-(k - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + level


class RelaxedOneHotCategorical(TransformedDistribution):
    """Parts of one, nearer to a single 1 as the temperature falls.

    Maddison et al., 2016; Jang et al., 2016.

    >>> D = torch.distributions
    >>> draw = D.RelaxedOneHotCategorical(torch.tensor(0.5), torch.ones(3)).rsample()
    >>> draw.shape, bool(abs(draw.sum() - 1) < 1e-6)
    (torch.Size([3]), True)
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.simplex

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """How smooth it is."""
        return self.base_dist.temperature  # type: ignore[attr-defined]

    @property
    def probs(self) -> Tensor:
        """The categories' probabilities."""
        return self.base_dist.probs  # type: ignore[attr-defined]

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits  # type: ignore[attr-defined]
