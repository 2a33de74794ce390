"""Distribution: what all of them share: shapes, checks of arguments, expanding, printing."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, ClassVar

import numpy as np

from .. import ops
from ..autograd import enable_grad, no_grad
from ..tensor import dtypes as types
from ..tensor.untracked_read import peek
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from .constraints import Constraint

EVENTLESS = Size(())


class lazy_property(functools.cached_property[Tensor]):
    """A parameter that another one gives, worked out when first asked for and then kept.

    It is recorded even where a draw, which records nothing, asks first: what is kept must have its
    gradient.
    """

    def __init__(self, function: Callable[[Any], Tensor]) -> None:
        super().__init__(enable_grad()(function))


def broadcast_all(*values: Any) -> list[Tensor]:
    """Numbers and tensors as tensors of one shape; numbers get the tensors' dtype."""
    for value in values:
        if not isinstance(value, (Tensor, Number)):
            raise ValueError("Input arguments must all be instances of Number, torch.Tensor or "
                             "objects implementing __torch_function__.")  # fmt: skip
    kinds = [v.dtype for v in values if isinstance(v, Tensor)]
    kind = kinds[0] if kinds else types.get_default_dtype()
    made = [v if isinstance(v, Tensor) else ops.tensor(v, dtype=kind) for v in values]
    return list(ops.broadcast_tensors(*made))


def standard_normal(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Normal numbers in the dtype of `like`."""
    return ops.normal(ops.zeros(shape, dtype=like.dtype), ops.ones(shape, dtype=like.dtype))


def _standard_normal(shape: Sequence[int], dtype: types.dtype, device: Any) -> Tensor:
    return ops.empty(shape, dtype=dtype, device=device).normal_()


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangles of (..., n, n) matrices as vectors, row by row; `diag` as in `tril`.

    >>> from flambeau.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(torch.tensor([[1., 0.], [2., 3.]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    below = ops.ones(n, n, dtype=types.bool_).tril(diag)
    return mat[..., below]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Vectors as the lower triangles of matrices: what `tril_matrix_to_vec` undoes.

    >>> from flambeau.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(torch.tensor([1., 2., 3.]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    many = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * many + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > types.finfo(vec.dtype).eps:
        raise ValueError(f"The size of last dimension is {many} which cannot be expressed as the "
                         "lower triangular part of a square D x D matrix.")  # fmt: skip
    size = round(n)
    made = vec.new_zeros((*vec.shape[:-1], size, size))
    made[..., ops.ones(size, size, dtype=types.bool_).tril(diag)] = vec
    return made


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities pushed off 0 and 1 by the dtype's precision."""
    eps = types.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log probabilities, or the log odds of a binary choice.

    >>> from flambeau.distributions.utils import probs_to_logits
    >>> probs_to_logits(torch.tensor([0.5, 0.75]), is_binary=True)
    tensor([0.0000, 1.0986])
    """
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities of log probabilities (up to a constant), or of log odds.

    >>> from flambeau.distributions.utils import logits_to_probs
    >>> logits_to_probs(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` axes."""
    return value.flatten(-dims).sum(-1) if dims else value


class Distribution:
    """A distribution with a batch of parameters.

    `batch_shape`: one distribution an element; `event_shape`: the shape of one draw. Arguments are
    checked (ValueError) unless validate_args=False. A compiled step checks only while it is
    recorded.

    >>> normal = torch.distributions.Normal(torch.zeros(2, 3), 1.)
    >>> normal.batch_shape, normal.event_shape, normal.sample((5,)).shape
    (torch.Size([2, 3]), torch.Size([]), torch.Size([5, 2, 3]))
    >>> torch.distributions.Normal(0., -1.)
    Traceback (most recent call last):
        ...
    ValueError: Expected parameter scale ... to satisfy the constraint GreaterThan...
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[Mapping[str, Constraint]] = {}
    support: Any = None
    _validate_args = True
    _batch_shape: Size
    _event_shape: Size

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (),
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor) and not _all(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments when they are not told."""
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw from one distribution."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        """Draws, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        """Draws through which gradients reach the parameters."""
        raise NotImplementedError(f"{type(self).__name__}.rsample")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, at `value`."""
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of numbers up to `value`."""
        raise NotImplementedError(f"{type(self).__name__}.cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The number up to which the probability is `value`."""
        raise NotImplementedError(f"{type(self).__name__}.icdf")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that can come."""
        raise NotImplementedError(f"{type(self).__name__}.enumerate_support")

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return ops.exp(self.entropy())

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distributions as a larger batch."""
        shape = Size(batch_shape)
        new = copy.copy(self)
        for name, value in list(self.__dict__.items()):
            if isinstance(value, Tensor):
                own = value.dim() - len(self._batch_shape)
                new.__dict__[name] = value.expand(shape + value.shape[value.dim() - own :])
            elif isinstance(value, Distribution):
                more = len(value._batch_shape) - len(self._batch_shape)
                tail = value._batch_shape[len(value._batch_shape) - more :]
                new.__dict__[name] = value.expand(shape + tail)
        new._batch_shape = shape
        return new

    def _extended_shape(self, sample_shape: Sequence[int] = EVENTLESS) -> Size:
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = len(self._event_shape)
        if value.shape[value.dim() - events :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} "
                             f"vs {self._event_shape}.")  # fmt: skip
        np.broadcast_shapes(value.shape, self._extended_shape())
        if self.support is not None and not _all(self.support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({self.support!r}) of the distribution {self!r}, but "
                f"found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        parts = []
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                parts.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """A distribution of the exponential family.

    >>> issubclass(torch.distributions.Normal, torch.distributions.ExponentialFamily)
    True
    """


def _all(inside: Tensor) -> bool:
    """Whether all is True, read past the compiler: a check does not keep a step eager."""
    return bool(np.all(peek(inside)))
