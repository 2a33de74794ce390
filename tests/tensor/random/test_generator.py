"""The generator's stream and state, and PyTorch's numbers for seed 0 as PyTorch 2.13 gave them."""

import copy
import hashlib
import pickle

import ml_dtypes
import numpy as np
import pytest

from flambeau.tensor.random import integers, normal, rejection_sampling, distributions
from flambeau.tensor.random.generator import STATE, Generator

F32, F64 = np.float32, np.float64


def seeded(seed=0):
    return Generator().manual_seed(seed)


def digest(array):
    return hashlib.sha1(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]


def state_array(generator):
    """The state as a NumPy array, whatever the tensor layer wraps it in."""
    state = generator.get_state()
    return state if isinstance(state, np.ndarray) else np.asarray(state._array)


# What each sampler makes of seed 0, and PyTorch's numbers.
GOLDEN = [
    (lambda g: distributions.fill_uniform(np.empty(5, F32), g),
     [0.49625658988952637, 0.7682217955589294, 0.08847743272781372, 0.13203048706054688,
      0.30742281675338745]),
    (lambda g: distributions.fill_uniform(np.empty(3, F64), g),
     [0.9700530018065531, 0.707819864399788, 0.45938294312745087]),
    (lambda g: distributions.fill_uniform(np.empty(2, np.complex64), g),
     [0.49625658988952637 + 0.7682217955589294j, 0.08847743272781372 + 0.13203048706054688j]),
    (lambda g: distributions.fill_uniform(np.empty(3, np.float16), g),
     [0.496337890625, 0.76806640625, 0.0885009765625]),
    (lambda g: distributions.fill_uniform(np.empty((3, 2), F32).T, g),
     [[0.49625658988952637, 0.08847743272781372, 0.30742281675338745],
      [0.7682217955589294, 0.13203048706054688, 0.6340786814689636]]),
    (lambda g: normal.fill_normal(np.empty(3, F32), g),
     [1.5409960746765137, -0.293428897857666, -2.1787893772125244]),
    (lambda g: normal.fill_normal(np.empty(3, ml_dtypes.bfloat16), g),
     [1.5390625, -0.29296875, -2.171875]),
    (lambda g: normal.fill_normal(np.empty(16, F32), g)[:3],
     [-1.1258398294448853, -1.152360200881958, -0.2505785822868347]),
    (lambda g: normal.fill_normal(np.empty(17, F32), g)[-3:],
     [0.946298360824585, -0.843676745891571, 0.9318265914916992]),
    (lambda g: normal.fill_normal(np.empty(18, np.float16), g)[-2:], [0.9462890625, -0.84375]),
    (lambda g: normal.fill_normal(np.empty((6, 4), F32).T, g)[0],
     [1.5409960746765137, -1.0845223665237427, -0.7192575931549072, -0.8566746115684509,
      -0.5663174986839294, 0.3703935444355011]),
    (lambda g: integers.fill_random(np.empty(6, np.int64), g, 0, 100), [44, 39, 33, 60, 63, 79]),
    (lambda g: integers.fill_random(np.empty(3, np.int64), g, -(2**40), 2**40),
     [-358231004625, -593374360384, 291447657211]),
    (lambda g: integers.fill_random(np.empty(3, np.int64), g, whole=True),
     [900450186894289455, 3969543146641149120, 1895649597198586619]),
    (lambda g: integers.fill_random(np.empty(3, np.uint8), g, whole=True), [172, 47, 117]),
    (lambda g: integers.fill_random(np.empty(3, F32), g, whole=True),
     [8325664.0, 12888472.0, 1484222.0]),
    (lambda g: integers.fill_random(np.empty(3, ml_dtypes.bfloat16), g, whole=True),
     [149.0, 179.0, 47.0]),
    (lambda g: integers.randperm(10, generator=g), [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]),
    (lambda g: distributions.fill_bernoulli(np.empty(10, F32), 0.3, g),
     [0, 0, 0, 0, 0, 0, 1, 0, 0, 1]),
    (lambda g: distributions.fill_bernoulli(np.empty(10, F32), np.full(10, 0.3, F32), g),
     [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]),
    (lambda g: distributions.fill_dropout(np.empty(6, F32), 0.3, g),
     [0.0, 0.0, 1.4285714626312256, 0.0, 1.4285714626312256, 0.0]),
    (lambda g: distributions.fill_exponential(np.empty(3, F32), g, 2.0),
     [1.754163146018982, 0.6151923537254333, 0.3075220584869385]),
    (lambda g: distributions.fill_cauchy(np.empty(3, F32), g, 1.0, 2.0),
     [22.195459365844727, 2.5295345783233643, 0.743401288986206]),
    (lambda g: distributions.fill_geometric(np.empty(5, np.int64), 0.2, g), [1, 2, 4, 1, 2]),
    (lambda g: normal.fill_log_normal(np.empty(3, F32), g),
     [59.2634162902832, 1.5115599632263184, 0.03481946140527725]),
    (lambda g: integers.multinomial(np.array([0.1, 0.2, 0.3, 0.4], F32), 8, True, g),
     [3, 3, 2, 3, 3, 3, 1, 2]),
    (lambda g: integers.multinomial(np.array([0.1, 0.2, 0.3, 0.4], F32), 3, False, g), [2, 1, 3]),
    (lambda g: rejection_sampling.poisson(np.array([0.5, 3, 20, 50, 1000], F32), g),
     [2, 4, 21, 49, 987]),
    (lambda g: rejection_sampling.binomial(np.array([5, 10, 100, 100], F32),
                                           np.array([0.2, 0.9, 0.3, 0.8], F32), g), [2, 7, 28, 83]),
    (lambda g: rejection_sampling.standard_gamma(np.array([0.5, 1, 4], F32), g),
     [0.0007893581641837955, 0.11898370087146759, 3.9824273586273193]),
    (lambda g: rejection_sampling.dirichlet(np.array([0.5, 1, 4], F32), g),
     [0.00019242313283029944, 0.02900485135614872, 0.9708027243614197]),
]


@pytest.mark.parametrize(("draw", "expected"), GOLDEN)
def test_small_draws_are_pytorchs(draw, expected):
    assert draw(seeded()).tolist() == expected


# The first twelve digits of the SHA-1 of PyTorch's bytes, for n numbers from seed n.
DIGESTS = {
    "rand": (lambda n, g: distributions.fill_uniform(np.empty(n, F32), g),
             {16: "eb1f78124c70", 100: "0006cc47c271", 1001: "eafe911e7df1",
              100003: "30ab621adb68"}),
    "rand float16": (lambda n, g: distributions.fill_uniform(np.empty(n, np.float16), g),
                     {16: "76c130a919c7", 100: "98eba47e6f6c", 1001: "1791d1fa6aa3",
                      100003: "5185b7ccd2b3"}),
    "uniform": (lambda n, g: distributions.fill_uniform(np.empty(n, F32), g, -0.1, 0.3),
                {16: "75b076e003aa", 100: "6670ae52b6dd", 1001: "4f64bcfe173b",
                 100003: "fdd9f5bc395c"}),
    "randn": (lambda n, g: normal.fill_normal(np.empty(n, F32), g),
              {16: "3127879b9b91", 100: "7be237e030ba", 1001: "4b81c3ce177c",
               100003: "8247722c9ac2"}),
    "randn bfloat16": (lambda n, g: normal.fill_normal(np.empty(n, ml_dtypes.bfloat16), g),
                       {16: "6f97bcfb805e", 100: "28e519773f3a", 1001: "b1796af9380c",
                        100003: "55e254493cd8"}),
    "normal": (lambda n, g: normal.fill_normal(np.empty(n, F32), g, 1.0, 0.02),
               {16: "4af9f1662688", 100: "4423fbf1b1ac", 1001: "be797bcf0db9",
                100003: "91b77297e339"}),
    "randint": (lambda n, g: integers.fill_random(np.empty(n, np.int64), g, 0, 1000),
                {16: "70df41f1ca69", 100: "b3f676919558", 1001: "bdbc44cf0d40",
                 100003: "624f2235bbf7"}),
    "randperm": (lambda n, g: integers.randperm(n, generator=g),
                 {16: "d9aef1245243", 100: "24a5f7773281", 1001: "8664944a581d",
                  100003: "c86b5d37bbdb"}),
    "bernoulli": (lambda n, g: distributions.fill_bernoulli(np.empty(n, F32), 0.1, g),
                  {16: "52abe93d76b8", 100: "1e84ce223c43", 1001: "7172fc8c6e89",
                   100003: "f45310920b01"}),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_large_draws_are_pytorchs_by_array_code_and_by_machine_code(name, by_arrays, by_kernels):
    draw, expected = DIGESTS[name]
    by_arrays()
    assert {n: digest(draw(n, seeded(n))) for n in expected} == expected
    by_kernels()
    assert {n: digest(draw(n, seeded(n))) for n in expected} == expected


def test_state_is_pytorchs_bytes():
    assert digest(state_array(seeded())) == "50996bb5fa26"
    generator = seeded(7)
    distributions.fill_uniform(np.empty(3, F32), generator)
    normal.fill_normal(np.empty(5, F32), generator)
    integers.randperm(700, generator=generator)
    assert digest(state_array(generator)) == "fdb7462c9551"
    drawn = distributions.fill_uniform(np.empty(2, F32), generator)
    assert drawn.tolist() == [0.8872262239456177, 0.07673829793930054]


@pytest.mark.parametrize("spent", [0, 1, 5, 623, 624, 625, 1248, 70000])
def test_state_goes_round_at_any_point_of_the_block(spent):
    generator = seeded(3)
    generator.words(spent)
    normal.fill_normal(np.empty(1, F32), generator)  # leaves a second normal behind
    for other in (
        Generator().set_state(generator.get_state()),
        generator.clone_state(),
        copy.deepcopy(generator),
        pickle.loads(pickle.dumps(generator)),
    ):
        assert np.array_equal(state_array(other), state_array(generator))
        assert other.initial_seed() == 3
        ahead = normal.fill_normal(np.empty(3, F32), other)
        again = normal.fill_normal(np.empty(3, F32), generator.clone_state())
        assert np.array_equal(ahead, again)


def test_words_do_not_depend_on_how_they_are_asked_for():
    expected = seeded(5).words(5000)
    generator = seeded(5)
    pieces = [generator.words(n) for n in (0, 1, 623, 2, 600, 700, 0, 1248, 1826)]
    assert np.array_equal(np.concatenate(pieces), expected)


def test_seeds():
    generator = Generator()
    assert generator.initial_seed() == 67280421310721
    assert generator.manual_seed(-1) is generator
    assert generator.initial_seed() == (1 << 64) - 1
    assert np.array_equal(seeded(1 << 32 | 5).words(9), seeded(5).words(9))
    chosen = generator.seed()
    assert generator.initial_seed() == chosen
    for too_large in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            generator.manual_seed(too_large)
    for wrong in (1.5, True, "a"):
        with pytest.raises(RuntimeError, match="manual_seed expected a long, but got"):
            generator.manual_seed(wrong)


def test_seeding_forgets_the_second_normal():
    generator = seeded()
    first = normal.fill_normal(np.empty(1, F32), generator)
    generator.manual_seed(0)
    assert np.array_equal(normal.fill_normal(np.empty(1, F32), generator), first)


def test_what_a_cpu_generator_has_not():
    generator = Generator(device="cpu")
    assert generator.device.type == "cpu"
    with pytest.raises(RuntimeError, match="cuda"):
        Generator("cuda")
    with pytest.raises(RuntimeError, match="does not use offset"):
        generator.get_offset()
    with pytest.raises(RuntimeError, match="does not use offset"):
        generator.set_offset(4)
    with pytest.raises(NotImplementedError, match="graphsafe_get_state"):
        generator.graphsafe_get_state()
    with pytest.raises(NotImplementedError, match="graphsafe_set_state"):
        generator.graphsafe_set_state(generator)


def test_states_that_are_none(monkeypatch):
    monkeypatch.setattr(Generator, "unwrap_state", staticmethod(lambda state: state))
    generator = seeded()
    with pytest.raises(TypeError, match=r"expected a torch\.ByteTensor"):
        generator.set_state(3)
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        generator.set_state(np.zeros(STATE.itemsize))
    with pytest.raises(RuntimeError, match=r"of size 5056 but found .* 3"):
        generator.set_state(np.zeros(3, np.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        generator.set_state(np.zeros(STATE.itemsize, np.uint8))
