"""Distributions made of others: independent parts, transformed ones, mixtures."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..autograd import no_grad
from ..tensor import dtypes as types
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .discrete import Categorical
from .distribution import EVENTLESS, Distribution, broadcast_all, sum_rightmost
from .real_line import Cauchy, Normal, Uniform
from .transforms import AbsTransform, AffineTransform, ComposeTransform, ExpTransform, Transform


class Independent(Distribution):
    """The last axes of a batch as one value, whose parts are independent.

    >>> base = torch.distributions.Normal(torch.zeros(2, 3), 1.)
    >>> torch.distributions.Independent(base, 1).event_shape
    torch.Size([3])
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {}

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:
        batch, n = base_distribution.batch_shape, reinterpreted_batch_ndims
        if n > len(batch):
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution."
                             f"batch_shape), actual {n} vs {len(batch)}")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        batch_rank = len(batch) - n
        super().__init__(batch[:batch_rank], batch[batch_rank:] + base_distribution.event_shape,
                         validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the parts have."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether the parts have, and no axis of theirs counts as a value."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the parts."""
        support, dims = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(support, dims) if dims else support

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return (f"{type(self).__name__}({self.base_dist}, "
                f"{self.reinterpreted_batch_ndims})")


class TransformedDistribution(Distribution):
    """Distribution of a base distribution's samples after transforms.

    >>> D = torch.distributions
    >>> lognormal = D.TransformedDistribution(D.Normal(0., 1.), [D.ExpTransform()])
    >>> x = torch.tensor(2.)
    >>> torch.equal(lognormal.log_prob(x), D.LogNormal(0., 1.).log_prob(x))
    True
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {}

    def __init__(self, base_distribution: Distribution,
                 transforms: Transform | Sequence[Transform],
                 validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, but was "
                             f"{transforms}")
        composed = ComposeTransform(self.transforms)
        required, supplied = composed.domain.event_dim, composed.codomain.event_dim
        shape = base_distribution.batch_shape + base_distribution.event_shape
        events = len(base_distribution.event_shape)
        if len(shape) < required:
            raise ValueError("base_distribution needs to have shape with size at least "
                             f"{required}, but got {shape}.")
        result = Size(composed.forward_shape(shape))
        needed = composed.inverse_shape(result)
        if tuple(shape) != tuple(needed):
            base_distribution = base_distribution.expand(needed[: len(needed) - events])
        if required > events:
            base_distribution = Independent(base_distribution, required - events)
        self.base_dist = base_distribution
        events = len(base_distribution.event_shape)
        batch_rank = len(result) - max(supplied, events + supplied - required)
        super().__init__(result[:batch_rank], result[batch_rank:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has."""
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        extra_axes = len(self._event_shape) - codomain.event_dim
        return constraints.independent(codomain, extra_axes) if extra_axes > 0 else codomain

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distributions as a larger batch: the base is expanded."""
        new = copy.copy(self) if _instance is None else _instance
        new.__dict__.update(self.__dict__)
        shape = Size(batch_shape) + self._event_shape
        for transform in reversed(self.transforms):
            shape = Size(transform.inverse_shape(shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new._batch_shape = Size(batch_shape)
        return new

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        with no_grad():
            return self._flambeau_transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        return self._flambeau_transformed(self.base_dist.rsample(sample_shape))

    def _flambeau_transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _flambeau_undone(self, y: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            y = transform.inv(y)
        return y

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        events, total = len(self._event_shape), 0.0
        y: Tensor = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(change, events - transform.domain.event_dim)  # type: ignore[assignment]
            y = x
        inner = self.base_dist.log_prob(y)
        return total + sum_rightmost(inner, events - len(self.base_dist.event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        value = self._flambeau_undone(value)
        self.base_dist._validate_sample(value)
        return self._flambeau_turned_where_falling(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        value = self._flambeau_turned_where_falling(value)
        return self._flambeau_transformed(self.base_dist.icdf(value))

    def _flambeau_turned_where_falling(self, probability: Tensor) -> Tensor:
        """1 - probability where larger values of the base are smaller values here."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int):
            return probability if sign == 1 else 1 - probability
        return sign * (probability - 0.5) + 0.5


class LogNormal(TransformedDistribution):
    """exp of a normal number.

    >>> lognormal = torch.distributions.LogNormal(torch.tensor(0.), torch.tensor(1.))
    >>> lognormal.mean, lognormal.cdf(torch.tensor(1.))
    (tensor(1.6487), tensor(0.5000))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Folded(TransformedDistribution):
    """|x| of numbers that are as often below 0 as above it."""

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {"scale": constraints.positive}
    support = constraints.nonnegative

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        result = self.base_dist.log_prob(value) + math.log(2)
        return ops.where(value >= 0, result, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """|x| of normal numbers around 0.

    >>> half = torch.distributions.HalfNormal(torch.tensor(1.))
    >>> half.mean, half.log_prob(torch.tensor(0.))
    (tensor(0.7979), tensor(-0.2258))
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The standard deviation before the sign was dropped."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """|x| of Cauchy numbers around 0.

    >>> half = torch.distributions.HalfCauchy(torch.tensor(1.))
    >>> half.cdf(torch.tensor(1.)), half.mean
    (tensor(0.5000), tensor(inf))
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The half width at half height before the sign was dropped."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        return ops.full(tuple(self._extended_shape()), math.inf, dtype=self.scale.dtype)

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return super().log_prob(ops.as_tensor(value, dtype=self.scale.dtype))


class Gumbel(TransformedDistribution):
    """The largest of many: -log(-log(u)), shifted and scaled.

    >>> gumbel = torch.distributions.Gumbel(torch.tensor(0.), torch.tensor(1.))
    >>> gumbel.mean, gumbel.cdf(torch.tensor(0.))
    (tensor(0.5772), tensor(0.3679))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = types.finfo(self.loc.dtype)
        base = Uniform(ops.full_like(self.loc, limits.tiny),
                       ops.full_like(self.loc, 1 - limits.eps), validate_args)
        steps = [ExpTransform().inv, AffineTransform(0, -ops.ones_like(self.scale)),
                 ExpTransform().inv, AffineTransform(self.loc, -self.scale)]
        super().__init__(base, steps, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * 0.57721566490153286060

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distributions as a larger batch."""
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        Gumbel.__init__(new, new.loc, new.scale, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + 0.57721566490153286060)


class MixtureSameFamily(Distribution):
    """A category chooses which of the component's last batch axis draws.

    >>> D = torch.distributions
    >>> mixture = D.MixtureSameFamily(
    ...     D.Categorical(torch.tensor([0.25, 0.75])), D.Normal(torch.tensor([0., 4.]), 1.))
    >>> mixture.mean, mixture.variance
    (tensor(3.), tensor(4.))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {}
    has_rsample = False

    def __init__(self, mixture_distribution: Categorical, component_distribution: Any,
                 validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an instance of "
                             "torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of "
                             "torch.distributions.Distribution")
        batch, mixing = component_distribution.batch_shape, mixture_distribution.batch_shape
        for size, part_size in zip(reversed(mixing), reversed(batch[:-1]), strict=False):
            if size != 1 and part_size != 1 and size != part_size:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixing}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch[:-1]})")
        counts = mixture_distribution.logits.shape[-1], batch[-1]
        if counts[0] != counts[1]:
            raise ValueError(f"`mixture_distribution component` ({counts[0]}) does not equal "
                             f"`component_distribution.batch_shape[-1]` ({counts[1]})")
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        self._num_component = counts[1]
        super().__init__(batch[:-1], component_distribution.event_shape,
                         validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distributions as a larger batch."""
        new = copy.copy(self) if _instance is None else _instance
        new.__dict__.update(self.__dict__)
        shape = Size(batch_shape)
        components = (*shape, self._num_component)
        new.component_distribution = self.component_distribution.expand(components)
        new.mixture_distribution = self.mixture_distribution.expand(shape)
        new._batch_shape = shape
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """What every component may give."""
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def _flambeau_weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        axis = -1 - len(self._event_shape)
        return (self._flambeau_weights() * self.component_distribution.mean).sum(axis)

    @property
    def variance(self) -> Tensor:
        axis, weights = -1 - len(self._event_shape), self._flambeau_weights()
        within = (weights * self.component_distribution.variance).sum(axis)
        away = self.component_distribution.mean - self.mean.unsqueeze(axis)
        return within + (weights * away.pow(2)).sum(axis)

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        with no_grad():
            component = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            events = len(self._event_shape)
            axis = drawn.dim() - events - 1
            component = component.reshape(*component.shape, *(1,) * (events + 1))
            index = component.expand(*component.shape[: axis + 1], *drawn.shape[axis + 1 :])
            return drawn.gather(axis, index).squeeze(axis)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        axis = -1 - len(self._event_shape)
        component_log_probs = self.component_distribution.log_prob(value.unsqueeze(axis))
        log_weights = ops.log_softmax(self.mixture_distribution.logits, -1)
        return ops.logsumexp(component_log_probs + log_weights, -1)

    def cdf(self, value: Tensor) -> Tensor:
        axis = -1 - len(self._event_shape)
        component_cdfs = self.component_distribution.cdf(value.unsqueeze(axis))
        return (component_cdfs * self.mixture_distribution.probs).sum(-1)

    def __repr__(self) -> str:
        return (f"MixtureSameFamily(\n  {self.mixture_distribution},\n  "
                f"{self.component_distribution})")
