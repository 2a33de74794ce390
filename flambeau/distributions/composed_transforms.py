"""Transforms built from others: composed, over more axes, or per part of a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import ops
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import sum_rightmost
from .transform import Shape, Transform


class ComposeTransform(Transform):
    """Several transforms, one after the other.

    >>> D = torch.distributions
    >>> transform = D.ComposeTransform([D.AffineTransform(1., 2.), D.ExpTransform()])
    >>> transform(torch.tensor([0.])), transform.inv(torch.tensor([1.]))
    (tensor([2.7183]), tensor([-0.5000]))
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size)
        self.parts = list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """The first part's domain, extended by the event axes that later parts need."""
        if not self.parts:
            return constraints.real
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim,
                       part.domain.event_dim)
        return _with_axes(self.parts[0].domain, dims)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """The last part's codomain, extended by the event axes that earlier parts need."""
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim,
                       part.codomain.event_dim)
        return _with_axes(self.parts[-1].codomain, dims)

    @property
    def bijective(self) -> bool:
        """Whether all parts are bijective."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        """The parts' inverses in reverse order."""
        inverse = self._inv() if callable(self._inv) else self._inv
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = _create_weak_reference(inverse)
            inverse._inv = _create_weak_reference(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    _inverse = _inv_call

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ops.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = 0
        dims = self.domain.event_dim
        for part, source, target in zip(self.parts, values, values[1:], strict=False):
            change = part.log_abs_det_jacobian(source, target)
            total = total + sum_rightmost(change, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Shape) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {inner}\n)"


def _create_weak_reference(transform: Transform) -> Any:
    import weakref

    return weakref.ref(transform)


def _with_axes(constraint: Constraint, dims: int) -> Constraint:
    extra_axes = dims - constraint.event_dim
    return constraints.independent(constraint, extra_axes) if extra_axes > 0 else constraint


class IndependentTransform(Transform):
    """A transform whose last `reinterpreted_batch_ndims` batch axes become part of one value.

    >>> D = torch.distributions
    >>> transform, x = D.IndependentTransform(D.ExpTransform(), 1), torch.tensor([1., 2.])
    >>> transform.log_abs_det_jacobian(x, transform(x))
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int,
                 cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """The base's domain over more axes."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """The base's codomain over more axes."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        """Whether the base is bijective."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """The base's sign."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        change = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(change, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return (f"{type(self).__name__}({self.base_transform!r}, "
                f"{self.reinterpreted_batch_ndims})")


class ReshapeTransform(Transform):
    """Reshape the last axes from `in_shape` to `out_shape`.

    >>> torch.distributions.ReshapeTransform((4,), (2, 2))(torch.arange(4.))
    tensor([[0., 1.],
            [2., 3.]])
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """Real arrays with as many axes as in_shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """Real arrays with as many axes as out_shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        batch = x.shape[: x.dim() - len(self.in_shape)]
        return x.reshape((*batch, *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        batch = y.shape[: y.dim() - len(self.out_shape)]
        return y.reshape((*batch, *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Shape) -> Any:
        return _replace_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Any:
        return _replace_end(shape, self.out_shape, self.in_shape)


def _replace_end(shape: Shape, old: Size, new: Size) -> tuple:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    prefix_rank = len(shape) - len(old)
    if tuple(shape[prefix_rank:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {tuple(shape[prefix_rank:])} but got {old}")
    return tuple(shape[:prefix_rank]) + tuple(new)


class _Parts(Transform):
    """Transforms of parts of axis `dim`."""

    transforms: list[Transform]
    dim: int
    _split: Callable[[Tensor], list[Tensor]]

    @property
    def bijective(self) -> bool:
        """Whether all parts are bijective."""
        return all(part.bijective for part in self.transforms)

    def _pair_parts(self, value: Tensor) -> Iterator[tuple[Transform, Tensor]]:
        assert -value.dim() <= self.dim < value.dim()
        pieces = self._split(value)
        assert len(pieces) == len(self.transforms)
        return zip(self.transforms, pieces, strict=True)


class CatTransform(_Parts):
    """One transform per section of axis `dim`; `lengths` are the sections' lengths.

    >>> D = torch.distributions
    >>> D.CatTransform([D.ExpTransform(), D.identity_transform], lengths=[1, 2])(torch.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0,
                 lengths: Sequence[int] | None = None, cache_size: int = 0) -> None:
        assert all(isinstance(part, Transform) for part in tseq)
        if cache_size:
            tseq = [part.with_cache(cache_size) for part in tseq]
        super().__init__(cache_size)
        self.transforms = list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        """The largest event_dim of the parts."""
        return max(part.event_dim for part in self.transforms)

    @property
    def length(self) -> int:
        """The length of the axis."""
        return sum(self.lengths)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """The parts' domains, concatenated."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """The parts' codomains, concatenated."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, value: Tensor) -> list[Tensor]:
        assert value.size(self.dim) == self.length
        return list(value.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return ops.cat([part(piece) for part, piece in self._pair_parts(x)], dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.cat([part.inv(piece) for part, piece in self._pair_parts(y)], dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        changes = []
        for (part, source), (_, target) in zip(
            self._pair_parts(x), self._pair_parts(y), strict=True
        ):
            change = part.log_abs_det_jacobian(source, target)
            changes.append(sum_rightmost(change, self.event_dim - part.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return ops.cat(changes, dim=dim) if dim < 0 else sum(changes[1:], changes[0])


class StackTransform(_Parts):
    """One transform per element of axis `dim`.

    >>> D = torch.distributions
    >>> D.StackTransform([D.ExpTransform(), D.identity_transform])(torch.zeros(2))
    tensor([1., 0.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        assert all(isinstance(part, Transform) for part in tseq)
        if cache_size:
            tseq = [part.with_cache(cache_size) for part in tseq]
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """The parts' domains, stacked."""
        return constraints.stack([part.domain for part in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """The parts' codomains, stacked."""
        return constraints.stack([part.codomain for part in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _split(self, value: Tensor) -> list[Tensor]:
        return list(value.unbind(self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return ops.stack([part(piece) for part, piece in self._pair_parts(x)], dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.stack([part.inv(piece) for part, piece in self._pair_parts(y)], dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self._pair_parts(x), self._pair_parts(y), strict=True)
        changes = [part.log_abs_det_jacobian(source, target)
                   for (part, source), (_, target) in pairs]
        return ops.stack(changes, dim=self.dim)


identity_transform = ComposeTransform([])
