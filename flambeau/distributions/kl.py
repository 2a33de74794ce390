"""Kullback-Leibler divergences, registered by the classes of both distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import enable_grad, grad
from ..native.foundation.user_frames import warn
from ..tensor.tensor import Tensor
from .distribution import Distribution, ExponentialFamily, sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]

_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
_KL_MEMOIZE: dict[tuple[type, type], Rule] = {}  # cached lookups of the registry


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Declare the divergence of a pair of classes and their subclasses.

    >>> D = torch.distributions
    >>> class Mine(D.Normal):
    ...     pass
    >>> @D.register_kl(Mine, Mine)
    ... def _(p, q):
    ...     return torch.tensor(42.)
    >>> D.kl_divergence(Mine(0., 1.), Mine(0., 1.))
    tensor(42.)
    """
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type) and issubclass(cls, Distribution):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {cls}")

    def declare(rule: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = rule
        _KL_MEMOIZE.clear()
        return rule

    return declare


def _dispatch_kl(type_p: type, type_q: type) -> Rule | None:
    """Return the rule of the nearest pair of base classes, comparing p first, or None.

    Warns (RuntimeWarning) if comparing q first gives another rule.
    """
    pairs = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        return None
    far_p, far_q = type_p.__mro__.index, type_q.__mro__.index
    nearest = min(pairs, key=lambda pair: (far_p(pair[0]), far_q(pair[1])))
    nearest_by_q = min(pairs, key=lambda pair: (far_q(pair[1]), far_p(pair[0])))
    if _KL_REGISTRY[nearest] is not _KL_REGISTRY[nearest_by_q]:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({nearest[0].__name__}, {nearest_by_q[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[nearest]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean of log p(x) - log q(x) over x of p; NotImplementedError if there is no rule.

    >>> N = torch.distributions.Normal
    >>> torch.distributions.kl_divergence(N(0., 1.), N(1., 1.))
    tensor(0.5000)
    """
    rule = _KL_MEMOIZE.get((type(p), type(q)))
    if rule is None:
        rule = _dispatch_kl(type(p), type(q))
        if rule is None:
            raise NotImplementedError(f"No KL(p || q) is implemented for p type "
                                      f"{type(p).__name__} and q type {type(q).__name__}")
        _KL_MEMOIZE[type(p), type(q)] = rule
    return rule(p, q)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families "
                                  "cannot be computed using Bregman divergences")
    with enable_grad():
        natural = [parameter.detach().requires_grad_() for parameter in p._natural_params]
        normalizer = p._log_normalizer(*natural)
        slopes = grad(normalizer.sum(), natural, create_graph=True)
    divergence = q._log_normalizer(*q._natural_params) - normalizer
    for p_natural, q_natural, slope in zip(natural, q._natural_params, slopes, strict=True):
        term = (q_natural - p_natural) * slope
        divergence = divergence - sum_rightmost(term, term.dim() - divergence.dim())
    return divergence
