"""Gamma and Dirichlet samples, differentiable in their parameters."""

from __future__ import annotations

from ...autograd.mode import MODE
from ...tensor.random import rejection_sampling
from ...tensor.random.generator import Generator
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array
from ..core.registry import opaque
from ..special.quantile_gradient import _dirichlet_grad, _standard_gamma_grad
from .creation import public


@public()
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw gamma variates of unit scale, with the shape parameters in `input`.

    >>> torch._standard_gamma(torch.tensor([1e6])).div(1e6).round()
    tensor([1.])
    """
    drawn = wrap(rejection_sampling.standard_gamma(input._array, generator))
    return _gamma_quantile(input, drawn) if MODE.grad and input.requires_grad else drawn


@public()
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw Dirichlet variates, with the concentrations along the last axis of `input`.

    >>> torch._sample_dirichlet(torch.tensor([1., 2., 3.])).sum()
    tensor(1.)
    """
    drawn = wrap(rejection_sampling.dirichlet(input._array, generator))
    return _dirichlet_quantile(input, drawn) if MODE.grad and input.requires_grad else drawn


@opaque(name="_gamma_quantile", node="StandardGammaBackward0", expose=(),
        ref=None, samples=None, second_order=False)
def _gamma_quantile(input: Array, drawn: Array) -> Array:
    """Return numbers drawn with shapes `input`; the derivative keeps their quantiles fixed."""
    return drawn


@_gamma_quantile.vjp("input")
def _(g: Tensor, input: Tensor, drawn: Tensor) -> Tensor:
    return g * _standard_gamma_grad(input, drawn)


@opaque(name="_dirichlet_quantile", node="SampleDirichletBackward0", expose=(),
        ref=None, samples=None, second_order=False)
def _dirichlet_quantile(input: Array, drawn: Array) -> Array:
    """Return shares drawn with parameters `input`; one moves at its quantile, the others adjust."""
    return drawn


@_dirichlet_quantile.vjp("input")
def _(g: Tensor, input: Tensor, drawn: Tensor) -> Tensor:
    total = input.sum(-1, keepdim=True).expand_as(input)
    slope = _dirichlet_grad(drawn, input, total)
    return slope * (g - (drawn * g).sum(-1, keepdim=True))
