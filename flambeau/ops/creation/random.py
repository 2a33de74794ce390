"""Random tensors and in-place random fills, with PyTorch's CPU numbers for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.errors.missing_derivatives import record_without_derivative
from ...autograd.inplace import bump, check_writable
from ...autograd.mode import MODE, no_grad
from ...native.foundation.allocation import allocate
from ...tensor import dtypes as types
from ...tensor.capture_marks import are_nonnegative, holds
from ...tensor.dtypes import as_dtype, dtype as Dtype
from ...tensor.layout import contiguous_format
from ...tensor.meta import MetaArray, meta_array
from ...tensor.overlap import check_no_internal_overlap, check_no_overlap
from ...tensor.random import integers, rejection_sampling, distributions
from ...tensor.random import normal as normals
from ...tensor.random.generator import Generator, default_generator
from ...tensor.tensor import Tensor, wrap
from ..core.errors import broadcast_mismatch
from ..core.operator import Array
from ..core.out import write_into
from ..core.out_dtypes import check_out_dtype
from ..core.output_layout import Layout
from ..core.registry import opaque, writes_by_operators
from ..indexing.index import overwrite
from .creation import (
    allocate_like, check_out_place, get_numpy_dtype, is_on_meta, parse_shape, place, public,
)

Generator.wrap_state = staticmethod(lambda state: wrap(state))
Generator.unwrap_state = staticmethod(
    lambda state: state._array if isinstance(state, Tensor) else state
)


@public()
def manual_seed(seed: int) -> Generator:
    """Seed the default generator and return it.

    >>> torch.manual_seed(0).initial_seed()
    0
    """
    return default_generator.manual_seed(int(seed))


@public()
def seed() -> int:
    """Seed the default generator with a random number, and return that number.

    >>> torch.initial_seed() == torch.seed()
    False
    """
    return default_generator.seed()


@public()
def initial_seed() -> int:
    """Return the seed of the default generator.

    >>> _ = torch.manual_seed(7)
    >>> torch.initial_seed()
    7
    """
    return default_generator.initial_seed()


@public()
def get_rng_state() -> Tensor:
    """Return the state of the default generator as a tensor of bytes.

    >>> state = torch.get_rng_state()
    >>> x = torch.rand(3)
    >>> torch.set_rng_state(state)
    >>> torch.equal(torch.rand(3), x)
    True
    """
    return default_generator.get_state()


@public()
def set_rng_state(new_state: Tensor) -> None:
    """Restore the state of the default generator.

    >>> state = torch.get_rng_state()
    >>> x = torch.rand(3)
    >>> torch.set_rng_state(state)
    >>> torch.equal(torch.rand(3), x)
    True
    """
    default_generator.set_state(new_state)


# ---------------------------------------------------------------------------- new tensors


def _draw(shape: tuple, dtype: np.dtype, device: Any, fill: Callable) -> np.ndarray:
    if is_on_meta(device):
        return meta_array(shape, dtype)
    return fill(allocate(shape, dtype))


def _choose_out_dtype(
    name: str, dtype: Dtype | None, out: Tensor, layout: Any = None, device: Any = None
) -> np.dtype:
    """The dtype in which numbers are drawn for `out=`: its own, which `dtype` must agree with, as
    `layout` and `device` must with its own."""
    if dtype is not None:
        check_out_dtype(name, as_dtype(dtype), out.dtype)
    check_out_place(out, layout, device)
    return out._array.dtype


def _create_sized_draw(name: str, fill: Callable, doc: str) -> Callable:
    def function(
        *size: Any, generator: Generator | None = None, out: Tensor | None = None,
        dtype: Dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, **kwargs: Any,
    ) -> Tensor:
        shape = parse_shape(size, kwargs.pop("size", None), name)
        if kwargs:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if out is not None:
            kind = _choose_out_dtype(name, dtype, out, layout, device)
            drawn = _draw(shape, kind, None, lambda a: fill(a, generator))
            write_into(out, drawn, warns=False)
            return out
        kind = get_numpy_dtype(dtype)
        return place(_draw(shape, kind, device, lambda a: fill(a, generator)), device,
                     requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return public(name)(function)


rand = _create_sized_draw("rand", distributions.fill_uniform, """Uniform numbers on [0, 1).

    PyTorch's, for the same seed.

    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """)
randn = _create_sized_draw("randn", normals.fill_normal, """\
Normal numbers, of mean 0 and variance 1.

    PyTorch's, for the same seed.

    >>> _ = torch.manual_seed(0)
    >>> torch.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """)


def _create_draw_like(name: str, fill: Callable, doc: str) -> Callable:
    def function(
        input: Tensor, *, generator: Generator | None = None, dtype: Dtype | None = None,
        layout: Any = None, device: Any = None, requires_grad: bool = False,
        memory_format: Any = None, pin_memory: bool = False,
    ) -> Tensor:
        array = allocate_like(input, dtype, memory_format, layout=layout)
        if array.__class__ is not MetaArray:
            fill(array, generator)
        return place(array, device or input.device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    >>> y = torch.{name}(torch.zeros(2, 3, dtype=torch.float64))
    >>> y.shape, y.dtype
    (torch.Size([2, 3]), torch.float64)
    """
    return public(name, explains=True)(function)


rand_like = _create_draw_like(
    "rand_like", distributions.fill_uniform, "Uniform numbers, shaped as `input`."
)
randn_like = _create_draw_like(
    "randn_like", normals.fill_normal, "Normal numbers, shaped as `input`."
)


def _read_bounds(low: Any, high: Any) -> tuple[int, int]:
    low = low.item() if isinstance(low, Tensor) else low
    high = high.item() if isinstance(high, Tensor) else high
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= "
                           f"to={high}")
    if low < -(2**63) or high >= 2**63:
        raise ValueError("Overflow when unpacking long long")
    return int(low), int(high)


def _create_bounds_error(args: tuple[Any, ...], size: Any) -> TypeError:
    """What randint says of bounds that are no integers, and of a number as the size."""
    if len(args) == 2:
        if isinstance(size, (int, float)):
            return TypeError("randint(): argument 'size' (position 2) must be tuple of ints, not "
                             f"{type(size).__name__}")
        return TypeError("randint(): argument 'high' (position 1) must be int, not float")
    after = ("Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, "
             "torch.device device = None, bool pin_memory = False, bool requires_grad = False)")
    kinds = ", ".join(type(value).__name__ for value in args)
    forms = "".join(
        f" * ({bounds}, tuple of ints size, *, {generator}{after}\n"
        for bounds in ("int high", "int low, int high")
        for generator in ("torch.Generator generator, ", ""))
    return TypeError("randint() received an invalid combination of arguments - got "
                     f"({kinds}), but expected one of:\n{forms}")


@public()
def randint(
    *args: Any, generator: Generator | None = None, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, **kwargs: Any,
) -> Tensor:
    """Draw integers uniformly from [low, high), called as randint(low, high, size).

    `low` defaults to 0.

    Args:
        args: high and size, or low, high and size.
        named: `low`, `high` and `size` by name.

    >>> _ = torch.manual_seed(0)
    >>> torch.randint(10, (5,))
    tensor([4, 9, 3, 0, 3])
    """
    positional = list(args)
    if "size" in kwargs:
        positional.append(kwargs.pop("size"))
    if "high" in kwargs:
        positional.insert(1 if len(positional) > 1 else 0, kwargs.pop("high"))
    low = kwargs.pop("low", None)
    if low is None:
        low = positional.pop(0) if len(positional) == 3 else 0
    if kwargs or len(positional) != 2:
        raise TypeError(
            "randint() received an invalid combination of arguments - expected (int high, tuple "
            "size) or (int low, int high, tuple size)"
        )
    if isinstance(low, float) or isinstance(positional[0], float) or isinstance(
            positional[1], (int, float)):
        raise _create_bounds_error(args, positional[1])
    low, high = _read_bounds(low, positional[0])
    shape = parse_shape((positional[1],))
    kind = get_numpy_dtype(dtype or types.int64) if out is None else _choose_out_dtype(
        "randint", dtype, out, layout, device
    )
    array = _draw(shape, kind, device, lambda a: integers.fill_random(a, generator, low, high))
    if out is not None:
        write_into(out, array, warns=False)
        return out
    return place(array, device, requires_grad)


@public(explains=True)
def randint_like(input: Tensor, *args: Any, dtype: Dtype | None = None, layout: Any = None,
                 device: Any = None, requires_grad: bool = False, memory_format: Any = None,
                 generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Draw integers uniformly from [low, high) in the shape of `input`; `low` defaults to 0.

    Args:
        args: high, or low and high.
        named: `low` and `high` by name.

    >>> torch.randint_like(torch.zeros(2, 3), 10).dtype
    torch.float32
    """
    low = kwargs.get("low", args[0] if len(args) == 2 else 0)
    high = kwargs.get("high", args[-1] if args else None)
    array = allocate_like(input, dtype, memory_format, layout=layout)
    if array.__class__ is not MetaArray:
        integers.fill_random(array, generator, *_read_bounds(low, high))
    return place(array, device or input.device, requires_grad)


@public()
def randperm(
    n: int, *, generator: Generator | None = None, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:
    """Return a random permutation of 0, ..., n - 1.

    >>> _ = torch.manual_seed(0)
    >>> torch.randperm(5)
    tensor([4, 0, 1, 3, 2])
    """
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    kind = get_numpy_dtype(dtype or types.int64) if out is None else _choose_out_dtype(
        "randperm", dtype, out
    )
    array = meta_array((n,), kind) if out is None and is_on_meta(device) \
        else integers.randperm(n, kind, generator)
    if out is not None:
        write_into(out, array, warns=False)
        return out
    return place(array, device, requires_grad)


@public()
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *,
           generator: Generator | None = None, out: Tensor | None = None,
           dtype: Dtype | None = None, layout: Any = None, device: Any = None,
           requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """Draw normal variates; the mean and standard deviation are numbers or tensors.

    >>> torch.normal(torch.tensor([1., 2.]), torch.tensor([0., 0.]))
    tensor([1., 2.])
    >>> torch.normal(0., 1., size=(2, 3)).shape
    torch.Size([2, 3])
    """
    if isinstance(std, Tensor):
        if not holds(std, are_nonnegative):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not np.iscomplexobj(std) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if size is not None:
        kind = get_numpy_dtype(dtype) if out is None else out._array.dtype
        array = _draw(parse_shape((size,)), kind, device,
                      lambda a: normals.fill_normal(a, generator, mean, std))
    else:
        tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
        if not tensors:
            kinds = ", ".join(type(x).__name__ for x in (mean, std))
            raise TypeError(f"normal() received an invalid combination of arguments - got ({kinds})"
                            ", but expected a tensor, or two numbers and a size")
        kind = tensors[0]._array.dtype
        shapes = [x._array.shape for x in tensors]
        if (mismatch := broadcast_mismatch(shapes)) is not None:
            raise RuntimeError(mismatch)
        shape = np.broadcast_shapes(*shapes)
        if tensors[0]._array.__class__ is MetaArray:
            array = meta_array(shape, kind)
        else:
            drawn = place(normals.fill_normal(np.empty(shape, kind), generator), device, False)
            with no_grad():
                array = (drawn * std + mean).to(tensors[0].dtype)._array
    if out is not None:
        write_into(out, array)
        return out
    result = place(array, device, requires_grad)
    for x in (mean, std):  # its derivative with respect to these is zero
        if isinstance(x, Tensor) and MODE.grad and x.requires_grad:
            result = _without_gradient(x, result)
    return result


# ------------------------------------------------------------------- drawn from a tensor's values


@public(spaces=("torch", "Tensor"), explains=True)
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Draw 1 with the probabilities in `input` (or `p`), else 0.

    Raises RuntimeError for probabilities outside [0, 1].

    Args:
        input: The probabilities, in [0, 1]; with `p` only the shape.

    >>> torch.bernoulli(torch.tensor([0., 1., 1.]))
    tensor([0., 1., 1.])
    """
    result = wrap(allocate_like(input, None, contiguous_format))
    if p is not None:
        distributions.fill_bernoulli(result._array, float(p), generator)
    else:
        _check_probabilities(input)
        distributions.fill_bernoulli(result._array, input._array, generator)
    if out is not None:
        check_no_internal_overlap(out._array)
        write_into(out, result._array, warns=False)
        return out
    if MODE.grad and input.requires_grad:
        return _without_gradient(input, result)
    return result


def _check_probabilities(input: Tensor) -> None:
    if input._array.dtype.kind not in "fV":
        raise RuntimeError(f'"bernoulli_tensor_cpu_p_" not implemented for {input.dtype}')
    if not holds(input, distributions.is_within_unit):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")


@opaque(layout=Layout.FREE,
        name="_without_gradient", node="BernoulliBackward0", expose=(), ref=None, samples=None)
def _without_gradient(input: Array, value: Array) -> Array:
    """A value drawn with the help of `input`: its derivative is zero."""
    return value


@_without_gradient.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return g.new_zeros(input_shape)


@_without_gradient.vjp("value")
def _(g: Tensor) -> Tensor:
    return g


@public(spaces=("torch", "Tensor"), explains=True)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None, out: Tensor | None = None,
) -> Tensor:
    """Draw indices from each row of weights, with probability proportional to the weight.

    `input` is (k,) or (n, k). Without `replacement`, raises RuntimeError for more samples than
    positive weights.

    Args:
        input: Weights, (k,) or (n, k), not negative; they need not sum to 1.

    >>> torch.multinomial(torch.tensor([0., 1., 0.]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    is_meta = input._array.__class__ is MetaArray
    if num_samples == 1 and input._array.size and input._array.dtype in types.FLOATS \
            and not is_meta:
        return _draw_index(input.detach(), replacement, generator, out)
    if is_meta:
        integers.check_weights(input._array, num_samples, replacement)
        array: Any = meta_array((*input._array.shape[:-1], num_samples), types.int64.numpy)
    else:
        array = np.ascontiguousarray(
            integers.multinomial(input._array, num_samples, replacement, generator))
    if out is not None:
        check_out_dtype("multinomial", types.int64, out.dtype)
        write_into(out, array)
        return out
    return wrap(array)


def _draw_index(
    weights: Tensor, replacement: bool, generator: Generator | None, out: Tensor | None
) -> Tensor:
    """Draw one index per row: the argmax of p / q with exponential q follows the weights' p. These
    are operators, which programs compute."""
    integers.check_weights(weights._array, 1, replacement)
    if not holds(weights, integers.are_weights):
        raise integers.explain_weights(weights._array, 1, replacement)
    q = wrap(distributions.fill_exponential(np.empty_like(weights._array, subok=False), generator))
    result: Tensor = (weights / q).argmax(-1, True)
    if out is None:
        return result
    check_out_dtype("multinomial", types.int64, out.dtype)
    write_into(out, result._array)
    return out


@public(explains=True)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw Poisson variates with the rates in `input`.

    Args:
        input: The rates, not negative.

    >>> torch.poisson(torch.tensor([0., 0.]))
    tensor([0., 0.])
    """
    if input._array.__class__ is MetaArray:
        return wrap(input._array.copy())
    result = wrap(rejection_sampling.poisson(input._array, generator))
    return _without_gradient(input, result) if MODE.grad and input.requires_grad else result


@public(explains=True)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw the number of successes in `count` trials of probability `prob`.

    >>> torch.binomial(torch.tensor([10., 10.]), torch.tensor([0., 1.]))
    tensor([ 0., 10.])
    """
    drawn = wrap(rejection_sampling.binomial(count._array, prob._array, generator))
    return record_without_derivative("binomial", drawn, (count, prob))


# -------------------------------------------------------------------------------- in place


IN_PLACE_DRAWS: list[Callable[..., Tensor]] = []


def _fill(
    name: str, fill: Callable[[Tensor, Any, tuple], Any], doc: str, *parameters: Any
) -> None:
    """A random in-place method, from the names and defaults of its parameters."""
    defaults = dict(parameters)
    usual = tuple(defaults.values())
    settings = ", ".join(f"`{key.strip('_')}`" for key in defaults)

    def method(
        self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any
    ) -> Tensor:
        if len(args) > len(usual) or (kwargs and set(kwargs) - {n.strip("_") for n in defaults}):
            raise TypeError(
                f"{name}() received an invalid combination of arguments: {args} {kwargs}"
            )
        values = (*args, *usual[len(args) :])
        if kwargs:
            bounds = zip(defaults, values, strict=True)
            values = tuple([kwargs.get(key.strip("_"), value) for key, value in bounds])
        recorded = check_writable(self, name)
        if self._array.__class__ is MetaArray:
            return self
        check_no_internal_overlap(self._array)
        if recorded:
            drawn = wrap(np.empty_like(self._array))
            fill(drawn, generator, values)
            return overwrite(self, drawn, name)
        fill(self, generator, values)
        bump(self)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""{doc}
    Args:
        args: {settings}, by position.
        named: {settings}, by name.
    """
    IN_PLACE_DRAWS.append(writes_by_operators(public(name, spaces=("Tensor",))(method)))


def _fill_uniform(x: Tensor, generator: Any, values: tuple) -> None:
    distributions.fill_uniform(x._array, generator, float(values[0]), float(values[1]))


def _fill_normal(x: Tensor, generator: Any, values: tuple) -> None:
    if values[1] < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {values[1]}")
    normals.fill_normal(x._array, generator, float(values[0]), float(values[1]))


_UNSET = object()  # of `to`: None asks for all numbers from `from` on


def _fill_random(x: Tensor, generator: Any, values: tuple) -> None:
    low, high = values
    if low is None and high is _UNSET:
        integers.fill_random(x._array, generator, whole=True)
    elif high is _UNSET:  # random_(to)
        integers.fill_random(x._array, generator, *_read_bounds(0, low))
    elif high is None:
        integers.fill_random(x._array, generator, int(low or 0))
    else:
        integers.fill_random(x._array, generator, *_read_bounds(low or 0, high))


def _fill_bernoulli(x: Tensor, generator: Any, values: tuple) -> None:
    p = values[0]
    if isinstance(p, Tensor):
        _check_probabilities(p)
        check_no_overlap(x._array, p._array)
        distributions.fill_bernoulli(x._array, p._array, generator)
        return
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    distributions.fill_bernoulli(x._array, float(p), generator)


_fill("uniform_", _fill_uniform, """Uniform numbers on [from, to), in place.

    >>> x = torch.empty(1000).uniform_(-1, 1)
    >>> bool(((-1 <= x) & (x < 1)).all())
    True
    """, ("from", 0), ("to", 1))
_fill("normal_", _fill_normal, """Normal numbers, in place. RuntimeError for a negative `std`.

    >>> torch.empty(2).normal_(mean=3., std=0.)
    tensor([3., 3.])
    """, ("mean", 0), ("std", 1))
_fill("random_", _fill_random, """\
Integers, in place: of the dtype's range, below `to`, or from `from`.

    >>> x = torch.empty(1000).random_(5, 10)
    >>> bool(((5 <= x) & (x < 10)).all())
    True
    """,
      ("from", None), ("to", _UNSET))
_fill("bernoulli_", _fill_bernoulli, """\
1 with probability p, a number or a tensor, else 0, in place.

    >>> torch.zeros(3).bernoulli_(torch.tensor([0., 1., 1.]))
    tensor([0., 1., 1.])
    """, ("p", 0.5))
_fill("exponential_", lambda x, g, v: distributions.fill_exponential(x._array, g, v[0]),
      """Exponential numbers of the rate `lambd`, in place.

    >>> bool((torch.empty(1000).exponential_(0.5) >= 0).all())
    True
    """, ("lambd", 1))
_fill("geometric_", lambda x, g, v: distributions.fill_geometric(x._array, v[0], g),
      """Trials until the first success, of probability p, in place.

    >>> bool((torch.empty(1000).geometric_(0.5) >= 1).all())
    True
    """, ("p", 0.5))
_fill("cauchy_", lambda x, g, v: distributions.fill_cauchy(x._array, g, v[0], v[1]),
      """Cauchy numbers, in place.

    >>> torch.empty(2, 3).cauchy_().shape
    torch.Size([2, 3])
    """, ("median", 0), ("sigma", 1))
_fill("log_normal_", lambda x, g, v: normals.fill_log_normal(x._array, g, v[0], v[1]),
      """exp of normal numbers, in place.

    >>> bool((torch.empty(1000).log_normal_() > 0).all())
    True
    """, ("mean", 1), ("std", 2))
