"""Datapipes: chains of pipes, their iterators, graphs and snapshots, and pipes in a DataLoader."""

from __future__ import annotations

import io
import pickle

import pytest


@pytest.fixture
def pipes(torch):
    import importlib

    for name in ("iter", "map", "utils.common", "utils.decoder", "utils.snapshot"):
        importlib.import_module(f"{torch.__name__}.utils.data.datapipes.{name}")
    return torch.utils.data.datapipes


def double(x):
    return 2 * x


def is_even(x):
    return x % 2 == 0


def parity(x):
    return x % 2


def test_streams_chain(pipes):
    numbers = pipes.iter.IterableWrapper(range(6))
    assert list(numbers.map(double).filter(is_even).batch(4)) == [[0, 2, 4, 6], [8, 10]]
    assert list(numbers.batch(2).unbatch()) == list(range(6))
    assert list(numbers.groupby(parity)) == [[0, 2, 4], [1, 3, 5]]
    doubles = pipes.iter.IterableWrapper(range(6)).map(double)
    assert list(numbers.concat(doubles))[5:8] == [5, 0, 2]
    assert list(numbers.zip(doubles))[2] == (2, 4)
    letters = pipes.iter.IterableWrapper("ab")
    assert list(numbers.mux(letters)) == [0, "a", 1, "b"]
    assert [len(pipe) for pipe in (numbers.batch(4), numbers.mux(letters), numbers.zip(letters))] \
        == [2, 4, 2]
    with pytest.raises(TypeError, match="valid length"):
        len(pipes.iter.IterableWrapper(iter("ab")).map(double))
    with pytest.raises(IndexError, match="exceeds the depth"):
        list(numbers.unbatch())


def test_indexed_pipes(pipes):
    numbers = pipes.map.SequenceWrapper(range(5))
    assert list(numbers.map(double).batch(2)) == [[0, 2], [4, 6], [8]]
    assert list(numbers.batch(2, drop_last=True)) == [[0, 1], [2, 3]]
    assert numbers.concat(numbers)[6] == 1
    assert numbers.zip(numbers.map(double))[3] == (3, 6)
    with pytest.raises(IndexError):
        numbers.concat(numbers)[10]
    with pytest.raises(TypeError, match="MapDataPipe"):
        numbers.concat(range(3))


def test_map_of_columns(pipes):
    pairs = pipes.iter.IterableWrapper([(1, -2), (3, -4)])
    assert list(pairs.map(abs, input_col=1)) == [(1, 2), (3, 4)]
    assert list(pairs.map(max, input_col=[0, 1])) == [(1,), (3,)]
    assert list(pairs.map(abs, input_col=1, output_col=-1)) == [(1, -2, 2), (3, -4, 4)]
    with pytest.raises(ValueError, match="output_col"):
        pairs.map(abs, output_col=1)
    with pytest.raises(ValueError, match="takes 1 parameters, but 2 are required"):
        pairs.map(double, input_col=[0, 1])
    with pytest.raises(ValueError, match="Boolean output"):
        list(pairs.filter(abs, input_col=0))


def test_a_second_iterator_ends_the_first(pipes):
    numbers = pipes.iter.IterableWrapper(range(3)).map(double)
    first = iter(numbers)
    assert next(first) == 0
    second = iter(numbers)
    assert next(second) == 0
    with pytest.raises(RuntimeError, match="another iterator has been created from the same"):
        next(first)


def test_an_error_names_its_pipe(pipes):
    with pytest.raises(ZeroDivisionError, match=r"thrown by __iter__ of MapperIterDataPipe\(.*fn="):
        list(pipes.iter.IterableWrapper([1, 0]).map(lambda x: 1 // x))


def test_fork_and_demux(pipes):
    a, b = pipes.iter.IterableWrapper(range(4)).fork(2, buffer_size=2)
    assert list(zip(a, b, strict=True)) == [(i, i) for i in range(4)]
    with pytest.raises(BufferError, match="insufficient"):
        list(a)
    even, odd = pipes.iter.IterableWrapper(range(5)).demux(2, parity)
    assert (list(even), list(odd)) == ([0, 2, 4], [1, 3])
    with pytest.raises(ValueError, match="between 0 and 1"):
        list(pipes.iter.IterableWrapper(range(5)).demux(2, double)[0])


def test_shuffles_have_pytorchs_order(torch, pipes):
    numbers = pipes.iter.IterableWrapper(range(8))
    assert list(numbers.shuffle().set_seed(0)) == [6, 7, 3, 0, 4, 5, 2, 1]
    assert list(numbers.shuffle(buffer_size=2).set_seed(0)) == [1, 2, 0, 3, 5, 6, 7, 4]
    torch.manual_seed(1)
    drawn = list(numbers.shuffle())
    torch.manual_seed(1)
    assert list(numbers.shuffle()) == drawn != list(numbers.shuffle())
    assert sorted(pipes.map.SequenceWrapper(range(8)).shuffle()) == list(range(8))


def test_pickles(pipes):
    chain = pipes.iter.IterableWrapper(range(5)).map(double).shuffle().set_seed(0).batch(2)
    copied = pickle.loads(pickle.dumps(chain))
    assert list(copied) == list(chain)
    forks = pickle.loads(pickle.dumps(pipes.iter.IterableWrapper(range(3)).fork(2)))
    assert list(zip(*forks, strict=True)) == [(0, 0), (1, 1), (2, 2)]


def test_snapshot(pipes):
    restore = pipes.utils.snapshot._simple_graph_snapshot_restoration
    chain = pipes.iter.IterableWrapper(range(6)).map(double)
    restore(chain, 4)
    with pytest.raises(RuntimeError, match="cannot be applied"):
        restore(chain, 4)
    assert list(chain) == [8, 10]
    assert list(chain) == [0, 2, 4, 6, 8, 10]


def test_graph_and_sharding(torch, pipes):
    import importlib

    graph = importlib.import_module(f"{torch.__name__}.utils.data.graph")
    settings = importlib.import_module(f"{torch.__name__}.utils.data.graph_settings")
    numbers = pipes.iter.IterableWrapper(range(10))
    part = numbers.sharding_filter()
    chain = part.map(double)
    names = [type(pipe).__name__ for pipe in
             settings.get_all_graph_pipes(graph.traverse_dps(chain))]
    assert names == ["MapperIterDataPipe", "ShardingFilterIterDataPipe",
                     "IterableWrapperIterDataPipe"]
    settings.apply_sharding(chain, 3, 1)
    assert list(chain) == [2, 8, 14]
    assert len(chain) == 3
    with pytest.raises(RuntimeError, match="Sharding twice"):
        settings.apply_sharding(chain.sharding_filter(), 3, 1)
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        shuffled = settings.apply_shuffle_settings(chain, shuffle=True)
    assert type(shuffled).__name__ == "ShufflerIterDataPipe"


def test_streams_close(pipes, tmp_path):
    (tmp_path / "b.txt").write_text("two")
    (tmp_path / "a.txt").write_text("one")
    files = pipes.iter.FileLister(str(tmp_path), "*.txt").open_files("t")
    assert [text for _, text in files.read_from_stream()] == ["one", "two"]
    stream = pipes.utils.common.StreamWrapper(io.StringIO("x"))
    pipes.utils.common.StreamWrapper.close_streams([{"a": stream}])
    assert stream.closed
    assert stream.file_obj.closed


def test_decoder(torch, pipes):
    from PIL import Image

    decoder = pipes.utils.decoder
    file = io.BytesIO()
    Image.new("RGB", (2, 3), (255, 0, 0)).save(file, "png")
    decode = decoder.Decoder(decoder.basichandlers, decoder.imagehandler("torchrgb"))
    decoded = decode([("a.png", file.getvalue()), ("b.json", b"[1]"), ("c.cls", b"4")])
    assert decoded["b.json"] == [1]
    assert decoded["c.cls"] == 4
    assert decoded["a.png"].shape == (3, 3, 2)
    assert decoded["a.png"][:, 0, 0].tolist() == [1, 0, 0]
    assert len(decoder.imagespecs) == 17


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_has_pytorchs_batches(torch, pipes, workers):
    torch.manual_seed(3)
    part = pipes.iter.IterableWrapper(range(10)).shuffle().sharding_filter()
    loader = torch.utils.data.DataLoader(part, batch_size=2, num_workers=workers, shuffle=True,
                                         persistent_workers=workers > 0,
                                         multiprocessing_context="fork" if workers else None)
    epochs = [[batch.tolist() for batch in loader] for _ in range(2)]
    assert epochs == {
        0: [[[1, 2], [9, 7], [0, 8], [6, 5], [3, 4]], [[7, 2], [8, 5], [9, 0], [3, 4], [6, 1]]],
        2: [[[1, 9], [2, 7], [0, 6], [8, 5], [3], [4]], [[1, 7], [3, 5], [4, 2], [9, 8], [6], [0]]],
    }[workers]


def test_functional_datapipe(torch, pipes):
    data = torch.utils.data
    register, base = data.functional_datapipe, data.IterDataPipe

    class Repeated(base):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            for x in self.source:
                yield from (x, x)

    name = "repeated_for_this_test"
    register(name)(Repeated)
    try:
        pipe = getattr(pipes.iter.IterableWrapper("ab"), name)()
        assert list(pipe) == ["a", "a", "b", "b"]
        assert repr(pipe).endswith("Repeated")
        assert name in dir(pipe)
        with pytest.raises(Exception, match="already taken"):
            register(name)(Repeated)
    finally:
        del base.functions[name]
    with pytest.raises(AttributeError, match="no_such_pipe"):
        pipe.no_such_pipe  # noqa: B018
    with data.guaranteed_datapipes_determinism(), pytest.raises(TypeError, match="non-determin"):
        data.non_deterministic(Repeated)(pipe)
