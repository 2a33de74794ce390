"""Distribution: the base class. Shapes, argument checks, expanding, printing."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, ClassVar

from .. import ops
from ..autograd import enable_grad, grad, no_grad
from ..native.foundation.public_names import class_of
from ..native.foundation.user_frames import warn
from ..overrides import is_tensor_like
from ..tensor import dtypes as types
from ..tensor.capture_marks import are_all_true, holds
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from . import constraints

EVENTLESS = Size(())
EULER = 0.57721566490153286060  # the Euler-Mascheroni constant


class lazy_property(functools.cached_property[Tensor]):
    """A parameter that is computed from another one on first access, then cached.

    It is recorded even if first accessed by a draw, which records nothing: the cached value needs
    its gradient.
    """

    def __init__(self, function: Callable[[Any], Tensor]) -> None:
        super().__init__(enable_grad()(function))


def broadcast_all(*values: Any) -> list[Tensor]:
    """Convert numbers and tensors to tensors of one shape; numbers get the tensors' dtype."""
    for value in values:
        if not isinstance(value, (Tensor, float, int, Number)) and not is_tensor_like(value):
            raise ValueError("Input arguments must all be instances of Number, torch.Tensor or "
                             "objects implementing __torch_function__.")
    dtypes = [v.dtype for v in values if isinstance(v, Tensor)]
    dtype = dtypes[0] if dtypes else types.get_default_dtype()
    tensors = [v if isinstance(v, Tensor) or not isinstance(v, Number)
               else ops.tensor(v, dtype=dtype) for v in values]
    return list(ops.broadcast_tensors(*tensors))


def standard_normal(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Draw normal numbers in the dtype of `like`."""
    return ops.empty(shape, dtype=like.dtype).normal_()


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
    mask = ops.ones(n, n, dtype=types.bool_).tril(diag)
    return mat[..., mask]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Vectors as the lower triangles of matrices: the inverse of `tril_matrix_to_vec`.

    >>> from flambeau.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(torch.tensor([1., 2., 3.]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    size = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * size + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > types.finfo(vec.dtype).eps:
        raise ValueError(f"The size of last dimension is {size} which cannot be expressed as the "
                         "lower triangular part of a square D x D matrix.")
    size = round(n)
    result = vec.new_zeros((*vec.shape[:-1], size, size))
    result[..., ops.ones(size, size, dtype=types.bool_).tril(diag)] = vec
    return result


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities away from 0 and 1 by the dtype's precision."""
    eps = types.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Convert probabilities to log probabilities, or to the log odds of a binary choice.

    >>> from flambeau.distributions.utils import probs_to_logits
    >>> probs_to_logits(torch.tensor([0.5, 0.75]), is_binary=True)
    tensor([0.0000, 1.0986])
    """
    retained = clamp_probs(probs)
    return retained.log() - (-retained).log1p() if is_binary else retained.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Convert log probabilities (up to a constant), or log odds, to probabilities.

    >>> from flambeau.distributions.utils import logits_to_probs
    >>> logits_to_probs(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` axes."""
    return value.flatten(-dims).sum(-1) if dims else value


# PyTorch's names in torch.distributions.utils.
_sum_rightmost, euler_constant = sum_rightmost, EULER


class Distribution:
    """A distribution with a batch of parameters.

    `batch_shape`: one distribution per element; `event_shape`: the shape of one draw. Arguments are
    checked (ValueError) unless validate_args=False.

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
    _validate_args = __debug__
    # Names of tensors that `expand` leaves unchanged.
    _flambeau_unexpanded: ClassVar[frozenset[str]] = frozenset()
    _batch_shape: Size
    _event_shape: Size

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (),
                 validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._flambeau_check_parameters()
        super().__init__()

    def _flambeau_check_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            arg_constraints = {}
            warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints "
                "= {}` or initialize the distribution with `validate_args=False` to turn off "
                "validation."
            )
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(
                    getattr(type(self), name, None), lazy_property):
                continue  # computed from another parameter
            value = getattr(self, name)
            if not holds_everywhere(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def arg_constraints(self) -> Any:
        """The constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint on the values."""
        raise NotImplementedError

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check their arguments by default."""
        if value not in [True, False]:
            raise ValueError
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
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{class_of(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        """Draw, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        """Draw through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """n draws; deprecated for `sample((n,))`."""
        warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw of at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`: the number whose cumulative probability is `value`."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All possible values."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return ops.exp(self.entropy())

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Expand to a larger batch, with parameters as views.

        _instance: the instance to fill, for a subclass that overrides this.
        """
        shape = Size(batch_shape)
        new = copy.copy(self) if _instance is None else _instance
        for name, value in list(self.__dict__.items()):
            if name in self._flambeau_unexpanded:
                pass
            elif isinstance(value, Tensor) and value.dim() >= len(self._batch_shape):
                own_rank = value.dim() - len(self._batch_shape)
                value = value.expand(shape + value.shape[value.dim() - own_rank :])
            elif isinstance(value, Distribution):
                extra_axes = len(value._batch_shape) - len(self._batch_shape)
                tail = value._batch_shape[len(value._batch_shape) - extra_axes :]
                value = value.expand(shape + tail)
            new.__dict__[name] = value
        new._batch_shape = shape
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A new instance for a subclass's `expand` to fill, or `_instance` if there is one."""
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Sequence[int] = EVENTLESS) -> Size:
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError for a value outside the support, unless validate_args is False."""
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = len(self._event_shape)
        if value.shape[value.dim() - events :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} "
                             f"vs {self._event_shape}.")
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError("Value is not broadcastable with batch_shape+event_shape: "
                                 f"{value.shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation."
            )
            return
        assert support is not None
        if not holds_everywhere(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but "
                f"found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        parameters = []
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                parameters.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(parameters)})"


class ExponentialFamily(Distribution):
    """A distribution with density exp(<t(x), eta> - F(eta) + k(x)).

    Subclasses define `_natural_params` (eta), `_log_normalizer` (F) and `_mean_carrier_measure`
    (the mean of k); the entropy follows from them and the derivative of F.

    >>> issubclass(torch.distributions.Normal, torch.distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        level = -self._mean_carrier_measure
        with enable_grad():
            natural = [p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*natural)
            slopes = grad(normalizer.sum(), natural, create_graph=True)
        level = level + normalizer
        for parameter, slope in zip(natural, slopes, strict=True):
            level = level - sum_rightmost(parameter * slope, parameter.dim() - level.dim())
        return level


def holds_everywhere(inside: Any) -> bool:
    """Whether all elements are True. Compiled steps also check this, without Python."""
    return holds(inside, are_all_true)
