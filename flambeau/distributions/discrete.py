"""Distributions over counts and categories, given by probabilities or by logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..autograd import no_grad
from ..ops.activation.softmax import softmax
from ..ops.activation.softplus import softplus
from ..ops.indexing.embedding import one_hot
from ..ops.loss.binary import binary_cross_entropy_with_logits
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import (
    EVENTLESS, Distribution, ExponentialFamily, broadcast_all, clamp_probs, holds_everywhere,
    lazy_property,
)
from .positive import Gamma


def require_either(probs: Any, logits: Any) -> tuple[str, Any]:
    """Which of the two was given, and it; ValueError for both or none."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("logits", logits) if probs is None else ("probs", probs)


class Binary(Distribution):
    """Of independent yes and no; holds `probs` or `logits`, and works the other one out."""

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"].size()

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }

    def _flambeau_hold(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        name, supplied = require_either(probs, logits)
        parameter, *expanded = broadcast_all(supplied, *others)
        self.__dict__[name] = parameter
        return [parameter, *expanded]

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of yes."""
        return ops.sigmoid(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """log(p / (1 - p))."""
        p = clamp_probs(self.probs)
        return ops.log(p) - ops.log1p(-p)


class Bernoulli(Binary, ExponentialFamily):
    """1 with probability probs, else 0.

    >>> torch.distributions.Bernoulli(0.25).log_prob(torch.tensor(1.))
    tensor(-1.3863)
    """

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure: ClassVar[float] = 0

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        (result,) = self._flambeau_hold(probs, logits)
        super().__init__(result.shape, validate_args=validate_args)

    @property
    def _natural_params(self) -> Any:
        return (ops.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return ops.log1p(ops.exp(x))

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, float("nan"))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, supplied = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, supplied, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        supplied: Tensor = self.__dict__["probs" if "probs" in self.__dict__ else "logits"]
        values = ops.arange(2, dtype=supplied.dtype)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Geometric(Binary):
    """How often no came before the first yes.

    >>> geometric = torch.distributions.Geometric(torch.tensor(0.25))
    >>> geometric.mean, geometric.log_prob(torch.tensor(1.)).exp()
    (tensor(3.), tensor(0.1875))
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        (result,) = self._flambeau_hold(probs, logits)
        super().__init__(result.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not holds_everywhere(self.probs > 0):
            p = self.probs.detach()
            raise ValueError(
                f"Expected parameter probs ({type(p).__name__} of shape {tuple(p.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{p[~(p > 0)]}")

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape, dtype = self._extended_shape(sample_shape), self.probs.dtype
        with no_grad():
            u = ops.empty(shape, dtype=dtype).uniform_(types.finfo(dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none") / self.probs


class Binomial(Binary):
    """How many of total_count are yes.

    >>> binomial = torch.distributions.Binomial(4, torch.tensor(0.5))
    >>> binomial.mean, binomial.log_prob(torch.tensor(2.)).exp()
    (tensor(2.), tensor(0.3750))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        result, self.total_count = self._flambeau_hold(probs, logits, total_count)
        self.total_count = self.total_count.type_as(result)
        super().__init__(result.shape, validate_args=validate_args)

    has_enumerate_support = True

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Integers from 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        log_coefficient = ops.lgamma(n + 1) - ops.lgamma(value + 1) - ops.lgamma(n - value + 1)
        return log_coefficient + value * self.logits - n * softplus(self.logits)

    def entropy(self) -> Tensor:
        largest = self._flambeau_same_count("inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(ops.exp(log_prob) * log_prob).sum(0) if largest else log_prob.sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        largest = self._flambeau_same_count(
            "Inhomogeneous total count not supported by `enumerate_support`.")
        values = ops.arange(1 + largest, dtype=self.total_count.dtype)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _flambeau_same_count(self, message: str) -> int:
        largest = int(self.total_count.max())
        if not int(self.total_count.min()) == largest:
            raise NotImplementedError(message)
        return largest


class NegativeBinomial(Binary):
    """How many yes come before total_count times no.

    >>> counts = torch.distributions.NegativeBinomial(torch.tensor(2.), torch.tensor(0.5))
    >>> counts.mean, counts.variance, counts.log_prob(torch.tensor(0.)).exp()
    (tensor(2.), tensor(4.), tensor(0.2500))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        result, self.total_count = self._flambeau_hold(probs, logits, total_count)
        self.total_count = self.total_count.type_as(result)
        super().__init__(result.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        with no_grad():
            rates = Gamma(self.total_count, ops.exp(-self.logits), validate_args=False)
            return ops.poisson(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        log_coefficient = ops.lgamma(n + value) - ops.lgamma(1.0 + value) - ops.lgamma(n)
        log_coefficient = log_coefficient.masked_fill(n + value == 0.0, 0.0)
        return log_coefficient - n * softplus(self.logits) - value * softplus(-self.logits)


class Poisson(ExponentialFamily):
    """Counts of mean rate.

    >>> poisson = torch.distributions.Poisson(torch.tensor(2.))
    >>> poisson.mean, poisson.log_prob(torch.tensor(0.))
    (tensor(2.), tensor(-2.))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def _natural_params(self) -> Any:
        return (ops.log(self.rate),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return ops.exp(x)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - (value + 1).lgamma()


class Categorical(Distribution):
    """One of as many categories as the last axis of probs, or logits, is long.

    >>> torch.distributions.Categorical(torch.tensor([1., 3.])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        name, supplied = require_either(probs, logits)
        if supplied.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = supplied - supplied.logsumexp(dim=-1, keepdim=True)
        self._num_events = supplied.size(-1)
        super().__init__(supplied.shape[:-1], validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The categories' probabilities, which sum to 1."""
        return softmax(self.logits, -1)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return ops.log(clamp_probs(self.probs))

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"].size()

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The categories' numbers."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return ops.full(tuple(self._batch_shape), float("nan"), dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            count = 1
            for n in sample_shape:
                count *= n
            drawn = ops.multinomial(rows, count, True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, logits = ops.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = ops.clamp(self.logits, min=types.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(self._num_events).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class CategoricalForm(Distribution):
    """What draws from a Categorical, in another form."""

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    _categorical: Categorical

    @property
    def probs(self) -> Tensor:
        """The categories' probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape


class OneHotCategorical(CategoricalForm):
    """A category, as a row with a single 1.

    >>> torch.distributions.OneHotCategorical(torch.tensor([0., 1., 0.])).sample()
    tensor([0., 1., 0.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = ops.eye(n, dtype=self.probs.dtype).view((n, *(1,) * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        drawn = self._categorical.sample(sample_shape)
        return one_hot(drawn, self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose draws hand their gradient to the probabilities.

    >>> logits = torch.zeros(3, requires_grad=True)
    >>> draw = torch.distributions.OneHotCategoricalStraightThrough(logits=logits).rsample()
    >>> draw.sum().item(), draw.requires_grad
    (1.0, True)
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(CategoricalForm):
    """How often each category comes among total_count draws.

    >>> multinomial = torch.distributions.Multinomial(10, torch.tensor([0.2, 0.8]))
    >>> multinomial.mean, multinomial.sample().sum()
    (tensor([2., 8.]), tensor(10.))
    """

    def __init__(self, total_count: int = 1, probs: Tensor | None = None,
                 logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, self._categorical = total_count, Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that sum to total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        drawn = drawn.movedim(0, -1)
        counts = ops.zeros(self._extended_shape(sample_shape), dtype=self.probs.dtype)
        return counts.scatter_add_(-1, drawn, ops.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = ops.broadcast_tensors(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0)
        log_coefficient = ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1)
        return log_coefficient + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = ops.tensor(self.total_count)
        binomial = Binomial(self.total_count, probs=self.probs)  # counts of one category
        counts = binomial.enumerate_support(expand=False)[1:]
        spread = (ops.exp(binomial.log_prob(counts)) * ops.lgamma(counts + 1)).sum([0, -1])
        return n * self._categorical.entropy() - ops.lgamma(n + 1) + spread
