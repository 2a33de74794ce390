"""Datasets, samplers, collation and DataLoader; orders and random states beside PyTorch."""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from flambeau import ops
from flambeau.tensor import Tensor
from flambeau.tensor.random.generator import Generator, default_generator
from flambeau.utils import data
from flambeau.utils.data._utils.collate import default_collate_fn_map

Point = namedtuple("Point", ["x", "y"])


class Squares(data.Dataset):
    """Sample i is (i, i * i)."""

    def __init__(self, length: int = 10) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[int, int]:
        if not 0 <= index < self.length:
            raise IndexError(index)
        return index, index * index


class Stream(data.IterableDataset):
    """The numbers below `end`, divided between the workers."""

    def __init__(self, end: int = 10) -> None:
        self.end = end

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.end, step))


def flat(loader) -> list:
    return [batch.tolist() for batch in loader]


# ------------------------------------------------------------------------------- datasets


def test_tensor_dataset_rows_and_mismatch():
    x, y = ops.arange(6).reshape(3, 2), ops.arange(3)
    dataset = data.TensorDataset(x, y)
    assert len(dataset) == 3
    assert [part.tolist() for part in dataset[1]] == [[2, 3], 1]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(x, ops.arange(4))


def test_stack_dataset_as_tuple_and_dict():
    assert data.StackDataset(Squares(), range(10))[2] == ((2, 4), 2)
    named = data.StackDataset(a=Squares(), b=range(10))
    assert named[3] == {"a": (3, 9), "b": 3}
    assert named.__getitems__([1, 2]) == [{"a": (1, 1), "b": 1}, {"a": (2, 4), "b": 2}]
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        data.StackDataset(range(2), range(3))
    with pytest.raises(ValueError, match="At least one dataset"):
        data.StackDataset()


def test_stack_dataset_checks_what_getitems_returns():
    class Short(Squares):
        def __getitems__(self, indices):
            return []

    stacked = data.StackDataset(Short())
    with pytest.raises(ValueError, match="Nested dataset's output size mismatch"):
        stacked.__getitems__([1])


def test_concat_dataset_indexing():
    joined = Squares(2) + Squares(3)
    assert isinstance(joined, data.ConcatDataset)
    assert joined.cumulative_sizes == [2, 5]
    assert [joined[i] for i in (1, 2, -1)] == [(1, 1), (0, 0), (2, 4)]
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        joined[-6]
    with pytest.raises(AssertionError, match="empty iterable"):
        data.ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        data.ConcatDataset([Stream()])


def test_chain_dataset():
    chained = Stream(2) + Stream(3)
    assert list(chained) == [0, 1, 0, 1, 2]
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(data.ChainDataset([Squares()]))


def test_subset_asks_for_getitems():
    subset = data.Subset(Squares(), [4, 2])
    assert subset[0] == (4, 16)
    assert subset.__getitems__([1, 0]) == [(2, 4), (4, 16)]

    class Doubled(data.Subset):
        def __getitem__(self, index):
            return 2 * index

    with pytest.raises(NotImplementedError, match="__getitems__"):
        Doubled(Squares(), [1])


def test_random_split_lengths_and_fractions():
    parts = data.random_split(range(10), [0.35, 0.35, 0.3])
    assert [len(part) for part in parts] == [4, 3, 3]
    assert sorted(i for part in parts for i in part.indices) == list(range(10))
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        data.random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0"):
        data.random_split(range(10), [-0.5, 1.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.9, 0.1])


# ------------------------------------------------------------------------------- samplers


def test_samplers_reject_wrong_arguments():
    with pytest.raises(TypeError, match="replacement should be a boolean"):
        data.RandomSampler(range(3), replacement=1)
    with pytest.raises(ValueError, match="num_samples should be a positive integer"):
        data.RandomSampler(range(0))
    with pytest.raises(ValueError, match="batch_size should be a positive integer"):
        data.BatchSampler(range(3), 0, False)
    with pytest.raises(ValueError, match="drop_last should be a boolean"):
        data.BatchSampler(range(3), 1, None)
    with pytest.raises(ValueError, match="weights should be a 1d sequence"):
        data.WeightedRandomSampler([[1.0]], 1)


def test_batch_sampler_lengths():
    for drop_last, expected in ((False, [[0, 1], [2, 3], [4]]), (True, [[0, 1], [2, 3]])):
        sampler = data.BatchSampler(range(5), 2, drop_last)
        assert list(sampler) == expected
        assert len(sampler) == len(expected)


def test_distributed_sampler_covers_and_pads():
    parts = [data.DistributedSampler(range(10), 4, rank, shuffle=False) for rank in range(4)]
    assert [list(part) for part in parts] == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    dropped = data.DistributedSampler(range(10), 4, 1, shuffle=False, drop_last=True)
    assert list(dropped) == [1, 5]
    shuffled = data.DistributedSampler(range(10), 2, 0)
    first = list(shuffled)
    shuffled.set_epoch(1)
    assert list(shuffled) != first
    with pytest.raises(ValueError, match="Invalid rank 4"):
        data.DistributedSampler(range(10), 4, 4)


def test_weighted_sampler_never_draws_weight_zero():
    default_generator.manual_seed(0)
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0, 2.0], 50)) == {1, 3}


# ------------------------------------------------------------------------------ collation


def test_collate_keeps_structure():
    first = {"p": Point(1, 2.0), "t": (ops.ones(2), "a")}
    second = {"p": Point(3, 4.0), "t": (ops.zeros(2), "b")}
    batch = data.default_collate([first, second])
    assert isinstance(batch["p"], Point)
    assert batch["p"].x.tolist() == [1, 3]
    assert str(batch["p"].y.dtype) == "torch.float64"
    assert isinstance(batch["t"], list)
    assert batch["t"][0].tolist() == [[1, 1], [0, 0]]
    assert batch["t"][1] == ("a", "b")


def test_collate_numpy_and_subclasses():
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype is ops.ones(1).dtype
    assert data.default_collate([np.arange(2), np.arange(2)]).shape == (2, 2)
    batch = data.default_collate([OrderedDict(a=1), OrderedDict(a=2)])
    assert type(batch) is OrderedDict
    assert batch["a"].tolist() == [1, 2]
    with pytest.raises(TypeError, match="default_collate: batch must contain"):
        data.default_collate([np.array(["text"])])
    with pytest.raises(TypeError, match="found <class 'object'>"):
        data.default_collate([object()])
    with pytest.raises(RuntimeError, match="equal size"):
        data.default_collate([[1], [1, 2]])


def test_collate_map_can_be_extended(monkeypatch):
    class Word(str):
        __slots__ = ()

    def count(batch, *, collate_fn_map):
        return len(batch)

    monkeypatch.setitem(default_collate_fn_map, Word, count)
    assert data.default_collate([Word("a"), Word("b")]) == 2


def test_convert():
    result = data.default_convert({"a": [np.arange(2), "x"], "p": Point(np.float64(1), 2)})
    assert result["a"][0].tolist() == [0, 1]
    assert result["a"][1] == "x"
    assert isinstance(result["p"].x, Tensor)
    assert result["p"].y == 2


# ----------------------------------------------------------------------------- DataLoader


def test_loader_batches():
    assert flat(data.DataLoader(range(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert flat(data.DataLoader(range(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(data.DataLoader(range(3), batch_size=None)) == [0, 1, 2]
    assert flat(data.DataLoader(range(4), batch_sampler=[[3, 0], [1]])) == [[3, 0], [1]]
    assert list(data.DataLoader(range(4), batch_size=2, collate_fn=sum)) == [1, 5]
    assert len(data.DataLoader(range(5), batch_size=2)) == 3


def test_loader_of_a_stream():
    assert flat(data.DataLoader(Stream(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert flat(data.DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    workers = data.DataLoader(Stream(5), batch_size=2, num_workers=2)
    assert flat(workers) == [[0, 2], [1, 3], [4]]


def test_loader_refuses_what_excludes_each_other():
    wrong = [
        ({"shuffle": True, "sampler": range(3)}, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "disables auto-batching"),
        ({"num_workers": -1}, "non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"persistent_workers": True}, "needs num_workers > 0"),
        ({"multiprocessing_context": "fork"}, "multi-process loading"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            data.DataLoader(range(3), **arguments)
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        data.DataLoader(Stream(), shuffle=True)
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        data.DataLoader(range(3)).batch_size = 2


def test_fast_rows_equal_slow_rows():
    x, y = ops.rand(20, 3), ops.arange(20)
    plain = data.TensorDataset(x, y)

    class Slow(data.TensorDataset):
        pass

    generator = Generator()
    batches = []
    for dataset in (plain, Slow(x, y), data.Subset(plain, range(20))):
        generator.manual_seed(5)
        loader = data.DataLoader(dataset, batch_size=6, shuffle=True, generator=generator)
        batches.append([[part.tolist() for part in batch] for batch in loader])
        assert type(next(iter(loader))) is list
    assert batches[0] == batches[1] == batches[2]


def test_rows_that_require_grad_keep_their_history():
    x = ops.ones(4, 2).requires_grad_()
    (batch,) = next(iter(data.DataLoader(data.TensorDataset(x), batch_size=4)))
    batch.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0]] * 4


def test_stream_longer_than_announced_warns():
    class Lying(Stream):
        def __len__(self):
            return 2

    loader = data.DataLoader(Lying(4), batch_size=None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        list(loader)


# ------------------------------------------------------------------------- beside PyTorch


class Noisy:
    """Samples with all three kinds of random numbers in them."""

    def __init__(self, rand) -> None:
        self.rand = rand

    def __len__(self) -> int:
        return 37

    def __getitem__(self, index):
        return index, self.rand(2).tolist(), np.random.rand(), random.random()


LOADERS = [
    {},
    {"batch_size": 5, "shuffle": True},
    {"batch_size": 5, "shuffle": True, "drop_last": True},
    {"batch_size": None, "shuffle": True},
    {"batch_size": 5, "shuffle": True, "seed": 4},
    {"batch_size": 4, "shuffle": True, "num_workers": 2},
    {"batch_size": 4, "shuffle": True, "num_workers": 2, "persistent_workers": True},
    {"batch_size": 4, "sampler": lambda m, d, w: m.RandomSampler(d, True, 70)},
    {"batch_size": 4, "sampler": lambda m, d, w: m.RandomSampler(d, False, 80)},
    {"batch_size": 4, "sampler": lambda m, d, w: m.SubsetRandomSampler(range(3, 20))},
    {"batch_size": 4, "sampler": lambda m, d, w: m.WeightedRandomSampler(w, 30)},
    {"batch_size": 4, "sampler": lambda m, d, w: m.DistributedSampler(d, 3, 1, seed=7)},
]


def two_epochs(module, rand, generator_class, default, options):
    options = dict(options)
    if "seed" in options:
        options["generator"] = generator_class().manual_seed(options.pop("seed"))
    if "sampler" in options:
        options["sampler"] = options["sampler"](module, range(37), list(range(1, 38)))
    default.manual_seed(3)
    random.seed(2)
    np.random.seed(1)
    loader = module.DataLoader(Noisy(rand), collate_fn=repr, **options)
    batches = [list(loader), list(loader)]
    states = [g.get_state().tolist() for g in (default, loader.generator) if g is not None]
    return batches, states


@pytest.mark.parity
@pytest.mark.parametrize("options", LOADERS, ids=range(len(LOADERS)))
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_same_order_and_random_state_as_pytorch(options):
    torch = pytest.importorskip("torch")
    import torch.utils.data as torch_data

    theirs = two_epochs(torch_data, torch.rand, torch.Generator, torch.default_generator, options)
    ours = two_epochs(data, ops.rand, Generator, default_generator, options)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]


@pytest.mark.parity
@pytest.mark.parametrize("lengths", [[0.5, 0.3, 0.2], [10, 27], [0.1, 0.2, 0.3, 0.4]])
def test_same_split_as_pytorch(lengths):
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    default_generator.manual_seed(5)
    theirs = torch.utils.data.random_split(range(37), lengths)
    ours = data.random_split(range(37), lengths)
    assert [part.indices for part in ours] == [part.indices for part in theirs]


def test_a_random_sampler_draws_as_it_goes():
    sampler = data.RandomSampler(range(5), replacement=True, num_samples=10**15)
    drawn = list(itertools.islice(sampler, 70))
    assert len(drawn) == 70 and set(drawn) <= set(range(5))
    assert len(list(data.RandomSampler(range(5), replacement=True, num_samples=64))) == 64
