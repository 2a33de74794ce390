"""Every operator of the registry, and its gradients, compiled to machine code against eager.

Generated from the operators' samples. What runs in a program as an eager call, or stays eager, is
named here: an operator that is lost from those that are compiled fails.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops.core.operator import OPERATORS, Kind, Operator
from flambeau.tensor import Tensor, wrap

# Operators of detection come with torchvision, and programs call them as they are.
SAMPLED = [operator for operator in OPERATORS.values()
           if operator.kind is not Kind.COMPOSITE and operator.samples is not None
           and not operator.body.__module__.startswith("flambeau.ops.detection")]
BOUNDS = {"float64": 1e-9, "float32": 2e-4, "complex128": 1e-9, "complex64": 2e-4}
CALLS = 4  # calls of each step: eager, recorded, recorded and compiled, native

# Programs call these as they are: linear algebra, sorting, functions that only SciPy has.
CALLED = frozenset("""
    _embedding_bag_rows _grid_sampler _householder_product _linalg_eigvalsh _linalg_inv_ex
    _linalg_lstsq _linalg_pinv _linalg_qr _linalg_solve _linalg_solve_triangular _linalg_svd
    _linalg_svdvals
    _lu_factor_ex _matrix_exp _matrix_rank _median_dim _nanmedian_dim _pixels _polygamma _sort
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u
    chebyshev_polynomial_v chebyshev_polynomial_w cholesky_inverse cholesky_solve digamma erfcx
    erfinv frexp gcd geqrf hermite_polynomial_h hermite_polynomial_he histogram i0 i0e i1 i1e
    igamma igammac kthvalue laguerre_polynomial_l lcm legendre_polynomial_p lgamma linalg_det
    linalg_lu linalg_slogdet log_ndtr logcumsumexp mode modified_bessel_i0 modified_bessel_i1
    modified_bessel_k0 modified_bessel_k1 ndtri nextafter scaled_modified_bessel_k0
    scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
    shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w topk zeta
    _dirichlet_grad _median_all _nanmedian_all _permutation_matrix _standard_gamma_grad hash_tensor
""".split())

# Programs call those of complex numbers as they are. Steps of nothing else stay eager, as do those
# that gradients of complex numbers go in or out of.
COMPLEX = frozenset("""
    _conj _conj_view _fft_c2c _fft_c2r _fft_r2c _imag _linalg_eig _linalg_eigvals _real angle
    complex view_as_complex view_as_real
""".split())

# Steps with these stay eager: shapes that depend on values, windows that negate what they read,
# positions that are given as NumPy arrays.
EAGER = frozenset("_masked_select _neg_view index".split())

# Their gradients look at values in Python, or are made by NumPy past the operators.
EAGER_BACKWARD = frozenset("""
    _index_fill embedding_dense_backward
""".split())


def leaves(x: Any) -> Iterator[Any]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list):
        for part in x:
            yield from leaves(part)
    elif isinstance(x, Tensor):
        yield x


def replaced(x: Any, tensors: Iterator[Tensor]) -> Any:
    """The same structure with other tensors."""
    if isinstance(x, dict):
        return {key: replaced(part, tensors) for key, part in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return x  # settings
    if isinstance(x, tuple | list):
        return type(x)([replaced(part, tensors) for part in x])
    return next(tensors) if isinstance(x, Tensor) else x


class Case:
    """One sample of an operator in one precision, as a step of tensors."""

    def __init__(self, operator: Operator, args: tuple, kwargs: dict, narrow: bool) -> None:
        self.operator, self.narrow = operator, narrow
        self.smooth: list[bool] = []  # of each tensor: whether the operator has its derivative
        names = operator.names
        self.args = [self.argument(value, min(i, len(names) - 1)) for i, value in enumerate(args)]
        self.kwargs = {
            name: self.argument(value, names.index(name) if name in names else len(names))
                       for name, value in kwargs.items()}
        self.tensors = list(leaves([self.args, self.kwargs]))

    def argument(self, value: Any, position: int) -> Any:
        """A sample's argument as it is passed: its arrays as tensors, where these are taken."""
        names = self.operator.names
        known = self.operator.joint is not None or (
            position < len(names) and names[position] in self.operator.vjps)

        def tensor(array: Any) -> Any:
            array = np.array(array)
            if self.narrow and array.dtype.kind in "fc":
                array = array.astype(np.float32 if array.dtype.kind == "f" else np.complex64)
            if position not in self.operator.tensor_positions:
                return array
            self.smooth.append(known and array.dtype.kind in "fc")
            return wrap(array)

        if isinstance(value, np.ndarray | np.generic):
            return tensor(value)
        if isinstance(value, list | tuple) and any(isinstance(v, np.ndarray) for v in value):
            return type(value)([tensor(v) if isinstance(v, np.ndarray) else v for v in value])
        return value

    def call(self, tensors: Any) -> list[Tensor]:
        """The operator's results."""
        remaining = iter(tensors)
        args, kwargs = replaced(self.args, remaining), replaced(self.kwargs, remaining)
        return list(leaves([self.operator.function(*args, **kwargs)]))

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        """A step: the results."""
        return self.call(tensors)

    def backward(self, *tensors: Tensor) -> list[Tensor]:
        """A step: the results and the gradients of their weighted sum."""
        inputs = [x.detach().requires_grad_() if smooth else x
                 for x, smooth in zip(tensors, self.smooth, strict=True)]
        outputs = self.call(inputs)
        smooth = [y for y in outputs if y.requires_grad]
        weights = [y.detach().cos() + 0.5 for y in smooth]
        wanted = [x for x in inputs if x.requires_grad]
        grads = torch.autograd.grad(smooth, wanted, weights, allow_unused=True) if smooth else ()
        return [*(y.detach() for y in outputs), *(g for g in grads if g is not None)]

    @property
    def differentiable(self) -> bool:
        """Whether it has gradients."""
        return self.operator.differentiable and any(self.smooth)

    def compare(self, step: Callable) -> str:
        """Runs a step eagerly and compiled; how the compiled one ran."""
        fast = torch.compile(step, mode="now")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of steps that stay eager
            for i in range(CALLS):
                torch.manual_seed(i)
                actual = fast(*[wrap(x._array.copy()) for x in self.tensors])
                torch.manual_seed(i)
                wanted = step(*[wrap(x._array.copy()) for x in self.tensors])
                same(actual, wanted)
        programs = fast._programs
        if not sum(program.calls for program in programs):
            return "eager"
        return "called" if any(program.bindings.calls for program in programs) else "native"


def same(actual: list[Tensor], wanted: list[Tensor]) -> None:
    for a, b in zip(actual, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        bound = BOUNDS.get(b._array.dtype.name, 0.0)
        np.testing.assert_allclose(a._array, b._array, rtol=bound, atol=bound)


def cases(operator: Operator, narrow: bool) -> Iterator[Case]:
    rng = np.random.default_rng(zlib.crc32(operator.name.encode()))
    for args, kwargs in operator.samples(rng):
        yield Case(operator, args, kwargs, narrow)


def expect(operator: Operator, how: set[str], backward: bool) -> None:
    name, direction = operator.name, "backward" if backward else "forward"
    may = {"native"} | ({"called"} if name in CALLED | COMPLEX else set())
    if name in EAGER | COMPLEX or (backward and name in EAGER_BACKWARD):
        may.add("eager")
    assert how <= may, f"{name} {direction} runs {how}, not {may}"


@pytest.fixture(autouse=True)
def _reset():
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("operator", [pytest.param(o, id=o.name) for o in SAMPLED])
def test_an_operator_is_compiled(operator):
    case = next(cases(operator, narrow=True), None)
    if case is None:
        pytest.skip("has no samples")
    step = case.backward if case.differentiable else case.forward
    expect(operator, {case.compare(step)}, case.differentiable)


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [True, False], ids=["float32", "float64"])
@pytest.mark.parametrize("operator", [pytest.param(o, id=o.name) for o in SAMPLED])
def test_every_sample_is_compiled(operator, narrow):
    forward, backward = set(), set()
    for case in cases(operator, narrow):
        forward.add(case.compare(case.forward))
        if case.differentiable:
            backward.add(case.compare(case.backward))
    expect(operator, forward, False)
    expect(operator, backward, True)
    name = operator.name
    assert name not in CALLED or "called" in forward | backward, f"{name} is compiled: unlist it"
    assert name not in EAGER or "eager" in forward | backward, f"{name} is compiled: unlist it"
    assert name not in EAGER_BACKWARD or "eager" in backward, f"{name} is compiled: unlist it"


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_result_that_numpy_stretched_is_written_once(mode):
    """The bags' maxima are one -1, stretched, where there are none."""
    table = torch.nn.EmbeddingBag(10, 4, mode=mode).requires_grad_(False)
    step = torch.compile(lambda i, o: table(i, o) * 2, mode="now")
    for i in range(4):
        torch.manual_seed(i)
        indices = torch.randint(10, (7,))
        offsets = torch.tensor([0, 2, 5])
        same([step(indices, offsets)], [table(indices, offsets) * 2])
    assert sum(program.calls for program in step._programs)
