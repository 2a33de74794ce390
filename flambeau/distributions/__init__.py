"""torch.distributions: draws and densities, with gradients where they exist."""

from __future__ import annotations

from typing import Any

from . import constraints, distribution, homes, kl, transforms
from .combined import (
    Gumbel,
    HalfNormal,
    Independent,
    LogNormal,
    MixtureSameFamily,
    TransformedDistribution,
)
from .discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from .distribution import Distribution, ExponentialFamily
from .kl import kl_divergence, register_kl
from .multivariate import MultivariateNormal
from .positive import Beta, Chi2, Dirichlet, Exponential, Gamma
from .real_line import Cauchy, Laplace, Normal, StudentT, Uniform
from .relaxed import LogitRelaxedBernoulli, RelaxedBernoulli, RelaxedOneHotCategorical
from .transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy",
    "Chi2", "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential",
    "ExponentialFamily", "Gamma", "Geometric", "Gumbel", "HalfNormal", "Independent", "Laplace",
    "LogNormal", "LogitRelaxedBernoulli", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson", "PowerTransform",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "SigmoidTransform", "SoftplusTransform",
    "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "constraints",
    "identity_transform", "kl", "kl_divergence", "register_kl", "transforms",
]  # fmt: skip

_MISSING = frozenset((
    "ContinuousBernoulli", "FisherSnedecor", "GeneralizedPareto", "HalfCauchy", "InverseGamma",
    "Kumaraswamy", "LKJCholesky", "LogisticNormal", "LowRankMultivariateNormal",
    "NegativeBinomial", "Pareto", "VonMises", "Weibull", "Wishart", "CatTransform",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "ReshapeTransform", "SoftmaxTransform",
    "StackTransform", "StickBreakingTransform", "biject_to", "transform_to",
))  # fmt: skip

# After the names: `torch.distributions.normal` is a module, as `Normal` is a class.
globals().update(homes.settle(__name__, {**vars(distribution), **globals()}))


def __getattr__(name: str) -> Any:
    if name in _MISSING:
        raise NotImplementedError(f"flambeau does not have torch.distributions.{name} yet")
    raise AttributeError(f"module 'torch.distributions' has no attribute '{name}'")
