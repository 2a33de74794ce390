"""The samplers against PyTorch over dtypes, sizes, layouts and sequences; their errors."""

import hashlib
import threading
import warnings

import ml_dtypes
import numpy as np
import pytest

import flambeau as torch
from flambeau.tensor.random import integers, normal, rejection_sampling, distributions
from flambeau.tensor.random.generator import Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = ["float32", "float64", "float16", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = ["int64", "int32", "uint8", "int8", "int16"]
UNSIGNED = ["uint16", "uint32", "uint64"]
SIZES = [1, 2, 7, 15, 16, 17, 31, 100, 1000, 20000]

# Sampler: dtypes, how PyTorch draws into t from g, how we draw into a from g.
FILLS = {
    "uniform": (FLOATS + COMPLEX, lambda t, g: t.uniform_(generator=g), distributions.fill_uniform),
    "uniform bounds": (FLOATS + COMPLEX, lambda t, g: t.uniform_(-0.3, 0.7, generator=g),
                       lambda a, g: distributions.fill_uniform(a, g, -0.3, 0.7)),
    "uniform far": (FLOATS, lambda t, g: t.uniform_(1e3, 1e4, generator=g),
                    lambda a, g: distributions.fill_uniform(a, g, 1e3, 1e4)),
    "normal": (FLOATS + COMPLEX, lambda t, g: t.normal_(generator=g), normal.fill_normal),
    "normal scaled": (FLOATS + COMPLEX, lambda t, g: t.normal_(0.3, 0.7, generator=g),
                      lambda a, g: normal.fill_normal(a, g, 0.3, 0.7)),
    "log normal": (FLOATS, lambda t, g: t.log_normal_(0.3, 0.7, generator=g),
                   lambda a, g: normal.fill_log_normal(a, g, 0.3, 0.7)),
    "exponential": (FLOATS, lambda t, g: t.exponential_(1.7, generator=g),
                    lambda a, g: distributions.fill_exponential(a, g, 1.7)),
    "cauchy": (FLOATS, lambda t, g: t.cauchy_(0.3, 1.7, generator=g),
               lambda a, g: distributions.fill_cauchy(a, g, 0.3, 1.7)),
    "geometric": (FLOATS + INTEGERS, lambda t, g: t.geometric_(0.1, generator=g),
                  lambda a, g: distributions.fill_geometric(a, 0.1, g)),
    "bernoulli": ([*FLOATS, *INTEGERS, "bool"], lambda t, g: t.bernoulli_(0.3, generator=g),
                  lambda a, g: distributions.fill_bernoulli(a, 0.3, g)),
    "random": ([*FLOATS, *INTEGERS, "bool"], lambda t, g: t.random_(generator=g),
               lambda a, g: integers.fill_random(a, g, whole=True)),
    "random to": (FLOATS + INTEGERS + UNSIGNED, lambda t, g: t.random_(100, generator=g),
                  lambda a, g: integers.fill_random(a, g, 0, 100)),
    "random from": (["float32", "float16", "int64", "int8"],
                    lambda t, g: t.random_(-5, 100, generator=g),
                    lambda a, g: integers.fill_random(a, g, -5, 100)),
    "random wide": (["float32", "float64", "bfloat16", "int64"],
                    lambda t, g: t.random_(-(2**40), 2**41 + 3, generator=g),
                    lambda a, g: integers.fill_random(a, g, -(2**40), 2**41 + 3)),
    "random past half": (["float16"], lambda t, g: t.random_(-9999, 10007, generator=g),
                         lambda a, g: integers.fill_random(a, g, -9999, 10007)),
    "random upwards": ([*FLOATS, *INTEGERS, "bool", "uint16", "uint32"],
                       lambda t, g: t.random_(1, None, generator=g),
                       lambda a, g: integers.fill_random(a, g, 1)),
    "random 64 bits": (["float32", "float64", "bfloat16", "int64"],
                       lambda t, g: t.random_(-(2**63), None, generator=g),
                       lambda a, g: integers.fill_random(a, g, -(2**63))),
}


def seeded(seed=0):
    return Generator().manual_seed(seed)


def numpy_of(tensor):
    """A torch tensor's numbers; bfloat16, which torch does not hand over, by its bits."""
    import torch

    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.uint16).numpy().view(BF16)
    return tensor.numpy()


def state_bytes(generator):
    state = generator.get_state()
    array = state if isinstance(state, np.ndarray) else np.asarray(getattr(state, "_array", state))
    return array.tobytes()


def layouts(zeros, transpose, size):
    """The same memory layouts made by NumPy and by PyTorch: dense, stepped, turned, with gaps."""
    yield zeros((size,))
    yield zeros((2 * size,))[::2]
    if size % 20 == 0:
        yield transpose(zeros((5, size // 5)), 0, 1)
        yield transpose(zeros((4, 5, size // 20)), 0, 2)
        yield transpose(zeros((4, 10, size // 20))[:, ::2], 1, 2)


@pytest.mark.parity
@pytest.mark.parametrize("name", FILLS)
def test_fills_are_pytorchs_bit_for_bit(name):
    torch = pytest.importorskip("torch")
    dtypes, fill_torch, fill = FILLS[name]
    for dtype in dtypes:
        theirs, ours = torch.Generator().manual_seed(11), seeded(11)
        kind = BF16 if dtype == "bfloat16" else np.dtype(dtype)
        for size in SIZES:
            tensors = layouts(
                lambda shape, dtype=dtype: torch.zeros(shape, dtype=getattr(torch, dtype)),
                torch.transpose, size,
            )
            arrays = layouts(lambda shape, kind=kind: np.zeros(shape, kind), np.swapaxes, size)
            for tensor, array in zip(tensors, arrays, strict=True):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    fill_torch(tensor, theirs)
                    assert fill(array, ours) is array
                assert np.array_equal(array, numpy_of(tensor)), (dtype, size, array.strides)
                assert state_bytes(ours) == state_bytes(theirs), (dtype, size, array.strides)


@pytest.mark.parity
@pytest.mark.parametrize("seed", [0, 1, 2**40 + 17])
def test_a_million_and_mixed_sequences(seed):
    torch = pytest.importorskip("torch")
    theirs, ours = torch.Generator().manual_seed(seed), seeded(seed)
    chooser = np.random.default_rng(seed % 1000)
    for size in [10**6, *chooser.integers(1, 900, 60).tolist()]:
        name = chooser.choice(["uniform", "normal", "log normal", "random wide", "bernoulli"])
        dtypes, fill_torch, fill = FILLS[name]
        dtype = "float32" if size == 10**6 else chooser.choice(dtypes[:2])
        tensor, array = torch.empty(size, dtype=getattr(torch, dtype)), np.empty(size, dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # float32 has only 24 bits
            fill_torch(tensor, theirs)
            fill(array, ours)
        assert np.array_equal(array, tensor.numpy()), (name, dtype, size)
        order = torch.randperm(size % 50, generator=theirs).numpy()
        assert np.array_equal(integers.randperm(size % 50, generator=ours), order)
    assert state_bytes(ours) == state_bytes(theirs)


@pytest.mark.parity
@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 199, 200, 201, 1000, 100_000])
def test_randperm_is_pytorchs(n):
    torch = pytest.importorskip("torch")
    for dtype in ("int64", "float32", "float64", "int16", "float16"):
        if n > 1000 and dtype.endswith("16"):
            continue
        theirs, ours = torch.Generator().manual_seed(n), seeded(n)
        for _ in range(2):
            expected = torch.randperm(n, generator=theirs, dtype=getattr(torch, dtype)).numpy()
            order = integers.randperm(n, dtype, ours)
            assert order.dtype == expected.dtype
            assert np.array_equal(order, expected)
        assert state_bytes(ours) == state_bytes(theirs)


def _counts(torch, dtype):
    rng = np.random.default_rng(3)
    rates, p = rng.random((20, 30)).astype(dtype) * 30, rng.random((20, 30)).astype(dtype)
    trials = np.floor(p * 100)
    turned = np.ascontiguousarray(p.T).T
    tensor = torch.from_numpy
    return {
        "poisson": (lambda g: torch.poisson(tensor(rates), g),
                    lambda g: rejection_sampling.poisson(rates, g)),
        "binomial": (lambda g: torch.binomial(tensor(trials), tensor(p), g),
                     lambda g: rejection_sampling.binomial(trials, p, g)),
        "gamma": (lambda g: torch._standard_gamma(tensor(rates), g),
                  lambda g: rejection_sampling.standard_gamma(rates, g)),
        "multinomial": (lambda g: torch.multinomial(tensor(p), 40, True, generator=g),
                        lambda g: integers.multinomial(p, 40, True, g)),
        "multinomial without": (lambda g: torch.multinomial(tensor(turned), 7, generator=g),
                                lambda g: integers.multinomial(turned, 7, False, g)),
        "multinomial one": (lambda g: torch.multinomial(tensor(p[0]), 1, True, generator=g),
                            lambda g: integers.multinomial(p[0], 1, True, g)),
        "bernoulli p": (lambda g: torch.bernoulli(tensor(turned), generator=g),
                        lambda g: distributions.fill_bernoulli(np.empty_like(p), turned, g)),
        "bernoulli turned": (
            lambda g: torch.empty(30, 40)[:, ::2].t().bernoulli_(tensor(p), generator=g),
            lambda g: distributions.fill_bernoulli(np.empty((30, 40), np.float32)[:, ::2].T, p, g)),
        "bernoulli row": (
            lambda g: torch.empty(20, 30).bernoulli_(tensor(p[0]), generator=g),
            lambda g: distributions.fill_bernoulli(np.empty((20, 30), np.float32), p[0], g)),
    }


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_with_parameters_an_element_are_pytorchs(dtype):
    torch = pytest.importorskip("torch")
    for name, (draw_torch, draw) in _counts(torch, dtype).items():
        theirs, ours = torch.Generator().manual_seed(2), seeded(2)
        for _ in range(2):
            expected, drawn = draw_torch(theirs).numpy(), draw(ours)
            assert drawn.dtype == expected.dtype, name
            assert np.array_equal(drawn, expected), name
            assert state_bytes(ours) == state_bytes(theirs), name


@pytest.mark.parity
def test_dirichlet_is_pytorchs_up_to_the_order_of_its_sum():
    torch = pytest.importorskip("torch")
    concentrations = np.random.default_rng(0).random((20, 50))
    theirs, ours = torch.Generator().manual_seed(2), seeded(2)
    for dtype in (np.float32, np.float64):
        concentration = concentrations.astype(dtype)
        expected = torch._sample_dirichlet(
            torch.from_numpy(concentration), generator=theirs).numpy()
        drawn = rejection_sampling.dirichlet(concentration, ours)
        np.testing.assert_allclose(drawn, expected, rtol=4 * np.finfo(dtype).eps)
        assert state_bytes(ours) == state_bytes(theirs)


@pytest.mark.parity
def test_dropout_noise_is_pytorchs():
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng():
        torch.manual_seed(9)
        expected = torch.nn.functional.dropout(torch.ones(4, 5, 6).transpose(0, 1), 0.3).numpy()
        end = torch.get_rng_state().numpy().tobytes()
    ours = seeded(9)
    noise = distributions.fill_dropout(np.empty((4, 5, 6), np.float32).swapaxes(0, 1), 0.3, ours)
    assert np.array_equal(noise, expected)
    assert state_bytes(ours) == end


def test_empty_arrays_spend_nothing():
    generator = seeded()
    before = state_bytes(generator)
    distributions.fill_uniform(np.empty((0, 3), np.float32), generator)
    normal.fill_normal(np.empty((3, 0)), generator)
    integers.fill_random(np.empty(0, np.int64), generator, 0, 5)
    distributions.fill_dropout(np.empty(5, np.float32), 0.0, generator)
    assert integers.randperm(0, generator=generator).shape == (0,)
    assert state_bytes(generator) == before


def test_uniform_never_reaches_its_upper_bound():
    drawn = distributions.fill_uniform(np.empty(100_000, BF16), seeded(), 0.0, 1.0)
    assert (drawn < BF16.type(1)).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_huge_deviations_overflow_to_infinity_without_a_warning(dtype):
    for size in (8, 40):
        for spread in (1e5, 1e300, np.inf):
            drawn = normal.fill_normal(np.empty(size, dtype), seeded(), 0.0, spread)
            assert np.isinf(drawn).any() == (spread > float(np.finfo(dtype).max) / 4)
            drawn = normal.fill_log_normal(np.empty(size, dtype), seeded(), 0.0, spread)
            assert np.isinf(drawn).any()
        assert np.isinf(
            distributions.fill_cauchy(np.empty(size, "float16"), seeded(), 0, 1e5)
        ).any()


def test_few_numbers_at_a_time_keep_the_second_normal():
    together = normal.fill_normal(np.empty(6, np.float32), seeded())
    generator = seeded()
    apart = [normal.fill_normal(np.empty(n, np.float32), generator) for n in (1, 3, 2)]
    assert np.array_equal(np.concatenate(apart), together)


def test_long_permutations_use_64_bits_a_step(monkeypatch):
    # PyTorch's second algorithm starts at 2**32 // 20 elements.
    monkeypatch.setattr(integers, "_LARGE_PERMUTATION", 8)
    order = integers.randperm(40, generator=seeded())
    assert sorted(order.tolist()) == list(range(40))
    words = seeded().words(80).astype(np.uint64)
    expected = list(range(40))
    for i in range(40):
        z = int((words[2 * i] << np.uint64(32) | words[2 * i + 1]) % np.uint64(i + 1))
        expected[i], expected[z] = expected[z], i
    assert order.tolist() == expected


def test_threads_share_a_generator_without_losing_words():
    generator, drawn = seeded(), []
    threads = [
        threading.Thread(target=lambda: drawn.extend(generator.words(7) for _ in range(500)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = seeded().words(4 * 500 * 7)
    assert hashlib.sha1(np.sort(np.concatenate(drawn)).tobytes()).digest() == (
        hashlib.sha1(np.sort(expected).tobytes()).digest()
    )


WRONG = [
    (RuntimeError, r"found from=2 > to=1", lambda a, g: distributions.fill_uniform(a, g, 2, 1)),
    (RuntimeError, "to is out of bounds", lambda a, g: distributions.fill_uniform(a, g, 0, 1e40)),
    (RuntimeError, "std -1", lambda a, g: normal.fill_normal(a, g, 0, -1)),
    (RuntimeError, "std > 0.0", lambda a, g: normal.fill_log_normal(a, g, 0, 0)),
    (RuntimeError, "from=5 >= to=5", lambda a, g: integers.fill_random(a, g, 5, 5)),
    (RuntimeError, r"p to be in \[0, 1\]", lambda a, g: distributions.fill_bernoulli(a, 1.5, g)),
    (RuntimeError, "p_in", lambda a, g: distributions.fill_bernoulli(a, np.array([1.5]), g)),
    (RuntimeError, "expand", lambda a, g: distributions.fill_bernoulli(a, np.ones(4), g)),
    (NotImplementedError, "Long", lambda a, g: distributions.fill_bernoulli(a, np.ones(3, int), g)),
    (RuntimeError, "lambda > 0.0", lambda a, g: distributions.fill_exponential(a, g, 0)),
    (RuntimeError, "sigma > 0.0", lambda a, g: distributions.fill_cauchy(a, g, 0, 0)),
    (RuntimeError, r"p to be in \(0, 1\)", lambda a, g: distributions.fill_geometric(a, 1, g)),
    (RuntimeError, "n_sample <= 0", lambda a, g: integers.multinomial(a, 0, False, g)),
    (RuntimeError, "without replacement", lambda a, g: integers.multinomial(a, 4, False, g)),
    (RuntimeError, "element < 0", lambda a, g: integers.multinomial(a - 1, 1, False, g)),
    (RuntimeError, "<= 0", lambda a, g: integers.multinomial(a * 0, 1, False, g)),
    (RuntimeError, "non-negative", lambda a, g: rejection_sampling.poisson(a - 1, g)),
    (RuntimeError, "negative dimension", lambda a, g: integers.randperm(-1, np.int64, g)),
    (RuntimeError, "without overflow", lambda a, g: integers.randperm(300, np.uint8, g)),
    (RuntimeError, "2049", lambda a, g: integers.randperm(2050, np.float16, g)),
]


@pytest.mark.parametrize(("kind", "message", "call"), WRONG)
def test_errors(kind, message, call):
    with pytest.raises(kind, match=message):
        call(np.full(3, 0.5, np.float32), seeded())


WRONG_DTYPES = [
    (NotImplementedError, "check_uniform_bounds.*'Long'", np.int64, distributions.fill_uniform),
    (NotImplementedError, "normal_kernel_cpu.*'Long'", np.int64, normal.fill_normal),
    (NotImplementedError, "log_normal_cpu.*'Int'", np.int32, normal.fill_log_normal),
    (NotImplementedError, "geometric_cpu.*'Bool'", np.bool_,
     lambda a, g: distributions.fill_geometric(a, 0.5, g)),
    (NotImplementedError, "random_kernel_cpu.*'UInt16'", np.uint16,
     lambda a, g: integers.fill_random(a, g, whole=True)),
    (NotImplementedError, "bernoulli_scalar_cpu_.*'ComplexFloat'", np.complex64,
     lambda a, g: distributions.fill_bernoulli(a, 0.5, g)),
    (RuntimeError, "Exponential distribution is", np.int32, distributions.fill_exponential),
    (RuntimeError, "Cauchy distribution is", np.int32, distributions.fill_cauchy),
    (RuntimeError, "to - 1 is out of bounds", np.uint8,
     lambda a, g: integers.fill_random(a, g, 0, 300)),
    (RuntimeError, "from is out of bounds", np.uint8,
     lambda a, g: integers.fill_random(a, g, -1, 3)),
    (RuntimeError, "only integral, floating-point and boolean", np.complex64,
     lambda a, g: integers.fill_random(a, g, 0, 3)),
    (NotImplementedError, "'Half'", np.float16,
     lambda a, g: integers.fill_random(a, g, -(2**63))),
    (NotImplementedError, "randperm.*'Bool'", np.bool_,
     lambda a, g: integers.randperm(3, a.dtype, g)),
]


@pytest.mark.parametrize(("kind", "message", "dtype", "call"), WRONG_DTYPES)
def test_dtype_errors(kind, message, dtype, call):
    with pytest.raises(kind, match=message):
        call(np.zeros(3, dtype), seeded())


def test_normal_of_two_tensors_has_a_gradient_of_zero():
    mean, std = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.normal(mean, std).sum().backward()
    assert mean.grad.tolist() == std.grad.tolist() == [0, 0, 0]
