"""torch.distributions: draws and densities, with gradients where they exist."""

from __future__ import annotations

from ..tensor.absent import lacking
from . import constraints, distribution, homes, kl, transforms
from .combined import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Independent,
    LogNormal,
    MixtureSameFamily,
    TransformedDistribution,
)
from .correlation import LKJCholesky
from .discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    NegativeBinomial,
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
    "ExponentialFamily", "Gamma", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "LKJCholesky", "Laplace", "LogNormal", "LogitRelaxedBernoulli", "MixtureSameFamily",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Poisson", "PowerTransform", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "SigmoidTransform", "SoftplusTransform", "StudentT",
    "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "constraints",
    "identity_transform", "kl", "kl_divergence", "register_kl", "transforms",
]  # fmt: skip

_MISSING = frozenset((
    "ContinuousBernoulli", "FisherSnedecor", "GeneralizedPareto", "InverseGamma",
    "Kumaraswamy", "LogisticNormal", "LowRankMultivariateNormal",
    "Pareto", "VonMises", "Weibull", "Wishart", "CatTransform",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "ReshapeTransform", "SoftmaxTransform",
    "StackTransform", "StickBreakingTransform", "biject_to", "transform_to",
))  # fmt: skip

__getattr__ = lacking(__name__, _MISSING)


def _named(name: str) -> object:
    found = {**vars(distribution), **globals()}
    return found[name] if name in found else __getattr__(name)


# After the names: `torch.distributions.normal` is a module, as `Normal` is a class.
globals().update(homes.settle(__name__, _named))
