"""torch.distributions: draws and densities, with gradients where they exist."""

from __future__ import annotations

from . import (
    constraint_registry,
    constraints,
    distribution,
    homes,
    kl,
    kl_across_families,
    kl_same_family,
    multivariate,
    relaxed,
    transforms,
)
from .circular import VonMises
from .combined import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Independent,
    LogNormal,
    MixtureSameFamily,
    TransformedDistribution,
)
from .constraint_registry import biject_to, transform_to
from .continuous_bernoulli import ContinuousBernoulli
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
from .heavy_tails import FisherSnedecor, GeneralizedPareto
from .kl import kl_divergence, register_kl
from .lowrank_normal import LowRankMultivariateNormal
from .multivariate import MultivariateNormal
from .positive import Beta, Chi2, Dirichlet, Exponential, Gamma
from .real_line import Cauchy, Laplace, Normal, StudentT, Uniform
from .relaxed import LogitRelaxedBernoulli, RelaxedBernoulli, RelaxedOneHotCategorical
from .transformed_families import InverseGamma, Kumaraswamy, LogisticNormal, Pareto, Weibull
from .transforms import *
from .wishart import Wishart

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli",
    "Dirichlet", "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LogitRelaxedBernoulli", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution", "Uniform", "VonMises",
    "Weibull", "Wishart", "biject_to", "constraints", "kl", "kl_divergence", "register_kl",
    "transform_to", "transforms",
]
__all__ += transforms.__all__

# After the names: `torch.distributions.normal` is a module, as `Normal` is a class.
globals().update(homes.settle(
    __name__, {**vars(distribution), **vars(constraint_registry), **vars(relaxed),
               **vars(multivariate), **globals()}
))
