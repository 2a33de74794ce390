"""The modules that PyTorch keeps each distribution in, for programs that import from there.

flambeau keeps kindred distributions together, PyTorch one to a file: `from
torch.distributions.normal import Normal` must find it all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..tensor.absent import answer_for_absent

_HOMES = {
    "bernoulli": "Bernoulli", "beta": "Beta", "binomial": "Binomial",
    "categorical": "Categorical",
    "continuous_bernoulli": "ContinuousBernoulli", "fishersnedecor": "FisherSnedecor",
    "generalized_pareto": "GeneralizedPareto", "inverse_gamma": "InverseGamma",
    "kumaraswamy": "Kumaraswamy", "logistic_normal": "LogisticNormal",
    "lowrank_multivariate_normal": "LowRankMultivariateNormal", "pareto": "Pareto",
    "von_mises": "VonMises", "weibull": "Weibull", "wishart": "Wishart",
    "cauchy": "Cauchy", "chi2": "Chi2", "dirichlet": "Dirichlet",
    "exp_family": "ExponentialFamily", "exponential": "Exponential", "gamma": "Gamma",
    "geometric": "Geometric", "gumbel": "Gumbel", "half_cauchy": "HalfCauchy",
    "half_normal": "HalfNormal", "independent": "Independent", "laplace": "Laplace",
    "lkj_cholesky": "LKJCholesky", "log_normal": "LogNormal",
    "mixture_same_family": "MixtureSameFamily", "multinomial": "Multinomial",
    "multivariate_normal": "MultivariateNormal _batch_mahalanobis _batch_mv "
                           "_precision_to_scale_tril",
    "negative_binomial": "NegativeBinomial", "normal": "Normal",
    "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
    "poisson": "Poisson",
    "relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
    "relaxed_categorical": "ExpRelaxedCategorical RelaxedOneHotCategorical", "studentT": "StudentT",
    "transformed_distribution": "TransformedDistribution", "uniform": "Uniform",
    "utils": "_standard_normal _sum_rightmost broadcast_all clamp_probs euler_constant "
             "is_tensor_like lazy_property logits_to_probs probs_to_logits tril_matrix_to_vec "
             "vec_to_tril_matrix",
}


def settle(package: str, names: Mapping[str, Any]) -> dict[str, ModuleType]:
    """The modules by name, put where `import package.module` finds them."""
    result = {}
    for home, inhabitants in _HOMES.items():
        module = ModuleType(f"{package}.{home}", f"Where PyTorch keeps {inhabitants}.")
        module.__spec__ = ModuleSpec(module.__name__, None)
        module.__dict__.update({name: names[name] for name in inhabitants.split()})
        answer_for_absent(module)
        sys.modules[module.__name__] = result[home] = module
    return result
