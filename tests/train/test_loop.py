"""Loop: data of any kind, logs, monitored numbers, and going on from a saved position."""

from __future__ import annotations

import random

import numpy as np
import pytest

import flambeau as torch
from flambeau.train import Loop, MissingMetric, epoch, run, step
from flambeau.train import train as train_scope
from flambeau.utils.data import DataLoader, Dataset, IterableDataset


def test_step_with_and_without_the_run():
    first = Loop(lambda batch: batch)
    first.run([1])
    second = Loop(lambda run, batch: run.state.step * batch)

    assert second.run([1, 2]) == [{"epoch": 1}]
    assert (first.state.output, second.state.output) == (1, 4)
    third = Loop()

    @third.step
    def body(run, batch):
        return -batch

    third.run([4])
    assert third.state.output == -4
    with pytest.raises(RuntimeError, match="the loop has no step"):
        Loop().run([1])
    with pytest.raises(TypeError, match="a step takes"):
        Loop(lambda: None)


def test_state():
    loop, seen = Loop(lambda batch: None), []
    loop.attach(
        step.end,
        lambda run: seen.append((run.state.epoch, run.state.step, run.state.batch_number)),
    )
    loop.run("ab", epochs=2)
    assert seen == [(1, 1, 1), (1, 2, 2), (2, 3, 1), (2, 4, 2)]
    assert (loop.state.batches, loop.state.epochs) == (2, 2)
    assert (loop.state.iteration, loop.state.max_epochs, loop.state.epoch_length) == (4, 2, 2)
    with pytest.raises(AttributeError, match=r"the state has no 'epochh'.*'epoch'"):
        loop.state.epochh  # noqa: B018


def test_no_batches():
    loop = Loop(lambda batch: None)
    with pytest.raises(ValueError, match="no batches"):
        loop.run([])
    with pytest.raises(ValueError, match="there were no batches"):
        loop.run(x for x in ())
    with pytest.raises(ValueError, match="epoch 2: there were no batches: an iterator can be "
                                         "consumed only once"):
        loop.run(iter([1, 2]), epochs=2)
    for epochs in (-1, 1.5, True):
        with pytest.raises(ValueError, match="epochs must be a non-negative integer"):
            loop.run([1], epochs=epochs)
    assert loop.run([1], epochs=0) == []


def test_logs_and_history():
    loop = Loop(lambda batch: None)
    loop.attach(step.end, lambda run: run.log(last=run.state.batch))
    loop.attach(epoch.end, lambda run: run.log(at_the_end=run.metric("last") * 10))
    rows = loop.run([1, 2], epochs=2)
    assert rows == [{"epoch": n, "last": 2, "at_the_end": 20} for n in (1, 2)]
    assert loop.history == rows
    assert loop.run([3])[0]["last"] == 3  # a new run counts from one
    assert loop.state.step == 1


def test_monitored_and_never_there():
    loop, ended = Loop(lambda batch: None), []
    loop.attach(step.end, lambda run: run.log(loss=1.0))
    loop.attach(epoch.end, lambda: ended.append("epoch"))
    loop.monitor("valid_loss")
    with pytest.raises(MissingMetric, match=r"no 'valid_loss' in the logs of epoch 1.*loss"):
        loop.run([0], epochs=5)
    assert ended == ["epoch"]
    loop.attach(epoch.end, lambda run: run.log(valid_loss=2.0))
    assert len(loop.run([0], epochs=2)) == 2


def test_a_callback_that_monitors():
    callback = type("C", (), {"monitor": "acc", "on_epoch_end": lambda self: None})()
    with pytest.raises(MissingMetric, match="'acc'"):
        Loop(lambda batch: None, callbacks=[callback]).run([0])
    loop = Loop(lambda batch: None, callbacks=[callback])
    loop.attach(step.end, lambda run: run.stop())
    loop.run([0])  # stopped in the middle of the epoch: it may be missing


def test_monitoring_ends_with_the_callback():
    callback = type("C", (), {"monitor": "acc", "on_epoch_end": lambda self: None})()
    loop = Loop(lambda batch: None)
    with pytest.raises(MissingMetric):
        loop.run([0], callbacks=[callback])
    loop.run([0])


def test_callbacks_of_one_run():
    loop, seen = Loop(lambda batch: None), []
    callback = type("C", (), {"on_epoch_end": lambda self: seen.append(1)})()
    loop.run([0], callbacks=[callback])
    loop.run([0])
    assert seen == [1]


def test_one_run_at_a_time():
    loop = Loop(lambda run, batch: run.run([1]))
    with pytest.raises(RuntimeError, match="already running"):
        loop.run([0])


class Noisy(Dataset):
    """Samples with all three kinds of random numbers in them; counts what is loaded."""

    def __init__(self):
        self.loaded = 0

    def __len__(self):
        return 23

    def __getitem__(self, i):
        self.loaded += 1
        noise = torch.rand(()).item() + random.random() + np.random.rand()
        return i + noise


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(11)


def loaders():
    g = torch.Generator
    return {
        "sequence": lambda: DataLoader(Noisy(), batch_size=4),
        "shuffled": lambda: DataLoader(Noisy(), batch_size=4, shuffle=True),
        "generator": lambda: DataLoader(
            Noisy(), batch_size=4, shuffle=True, generator=g().manual_seed(3)
        ),
        "workers": lambda: DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2),
        "stream": lambda: DataLoader(Stream(), batch_size=4),
        "list": lambda: [torch.tensor([float(i)]) for i in range(6)],
    }


def curve(data, seed=0, stop_after=None, saved=None):
    """What a run's steps give, which draw random numbers themselves; and its state."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    loop, seen = Loop(lambda batch: batch.sum().item() + torch.rand(()).item()), []
    loop.attach(step.end, lambda run: seen.append(run.state.output))
    states = []
    if stop_after is not None:

        @loop.on(step.end(once=stop_after), band="io")
        def save(run):
            states.append(run.state_dict())
            run.stop()

    if saved is not None:
        loop.load_state_dict(saved)
    loop.run(data, epochs=3)
    return seen, states


@pytest.mark.parametrize("kind", loaders())
@pytest.mark.parametrize("after", [1, 3, 6, 8])
def test_goes_on_bit_for_bit(kind, after):
    make = loaders()[kind]
    whole, _ = curve(make())
    first, (saved,) = curve(make(), stop_after=after)
    assert first == whole[:after]
    rest, _ = curve(make(), seed=99, saved=saved)
    assert rest == whole[after:]


def test_skipped_samples_are_not_loaded():
    data = DataLoader(Noisy(), batch_size=4, shuffle=True)
    _, (saved,) = curve(data, stop_after=5)
    data.dataset.loaded = 0
    again = DataLoader(Noisy(), batch_size=4, shuffle=True)
    curve(again, saved=saved)
    assert again.dataset.loaded == 3 + 2 * 23  # the epoch's last batch, and two epochs


@pytest.mark.parametrize("where", [run.start, epoch.start, epoch.end, train_scope.end, run.end])
def test_saved_between_the_stages(where):
    make = loaders()["shuffled"]

    def go(save=None, saved=None, seed=0):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        loop, seen = Loop(lambda batch: batch.sum().item() + torch.rand(()).item()), []
        loop.attach(step.end, lambda run: seen.append((run.state.epoch, run.state.output)))
        if saved is not None:
            loop.load_state_dict(saved)
        if save is not None:
            loop.attach(where, lambda run: save.append(run.state_dict()))
        rows = loop.run(make(), epochs=3)
        return seen, len(rows)

    states = []
    whole, count = go(states)
    assert count == 3
    for saved in states:
        rest, rows = go(saved=saved, seed=5)
        assert rest == whole[len(whole) - len(rest) :]
        done = saved["step"]
        assert len(rest) == 18 - done
        assert rows == 3


def test_a_step_that_is_not_done_does_not_count():
    loop, saved = Loop(lambda batch: None), []
    loop.attach(step.start | step.end, lambda run: saved.append(run.state_dict()))
    loop.run([0, 0])
    assert [(state["step"], state["batch_number"]) for state in saved] == [
        (0, 0), (1, 1), (1, 1), (2, 2),
    ]


def test_start_events_of_a_resumed_epoch():
    data = [1, 2, 3]
    loop = Loop(lambda batch: None)
    loop.attach(step.end(once=2), lambda run: run.stop())
    loop.run(data)
    saved = loop.state_dict()
    again, seen = Loop(lambda batch: None), []
    again.attach(
        run.start | epoch.start | step.start,
        lambda run: seen.append((run.state.resumed, run.state.step)),
    )
    again.load_state_dict(saved)
    assert again.run(data) == [{"epoch": 1}]
    assert seen == [(True, 2), (True, 2), (False, 3)]
    again.load_state_dict(saved)
    with pytest.raises(ValueError, match="an epoch of 3 batches, but the data has 4"):
        again.run([1, 2, 3, 4])


def test_state_survives_a_file(tmp_path):
    loop = Loop(lambda batch: None)
    loop.attach(step.end(once=2), lambda run: run.stop())
    loop.run([1, 2, 3])
    torch.save(loop.state_dict(), tmp_path / "run.pt")
    again = Loop(lambda batch: None)
    again.load_state_dict(torch.load(tmp_path / "run.pt"))
    again.run([1, 2, 3])
    assert again.state.step == 3
