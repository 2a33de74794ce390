"""Checkpoint and Resume: which files there are, what fails without harm, and what is said."""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.optim.lr_scheduler import OneCycleLR
from flambeau.train import (
    EMA, SWA, Checkpoint, EarlyStopping, Freeze, GradientClipping, Loop, Resume, Schedule,
    TerminateOnNaN, Trainer, Warmup, callback, epoch, run, step,
)
from flambeau.train.checkpointing import background_writer
from flambeau.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X, Y = torch.randn(44, 3), torch.randint(0, 2, (44,))
ROOT = Path(__file__).parents[2]


def make(seed=0, compile=False, **options):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.4), nn.BatchNorm1d(8), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    trainer = Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"], compile=compile,
                      **options)
    trainer.losses = []
    trainer.attach(step.end, lambda run: run.losses.append(run.state.loss.item()))
    return trainer


def fit(trainer, epochs=3, **options):
    return trainer.fit((X, Y), (X[:20], Y[:20]), epochs=epochs, batch_size=8, **options)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def every_callback():
    return [
        Schedule(lambda o, run: OneCycleLR(o, 0.1, total_steps=run.state.batches * 3)),
        Warmup(7), EMA(0.9), SWA(2, name="SWA", evaluate=False), EarlyStopping(patience=50),
        Freeze("0", until=2), GradientClipping(0.5), TerminateOnNaN(),
    ]


@pytest.mark.parametrize(
    ("count", "compile"),
    [(1, False), (3, False), (6, False), (7, False), (13, False), (18, False),
     pytest.param(3, True, marks=pytest.mark.slow), pytest.param(13, True, marks=pytest.mark.slow)],
)
def test_every_callback_resumes_to_the_bit(count, compile, tmp_path):
    whole = make(compile=compile)
    with torch_exact():
        rows = fit(whole, callbacks=every_callback())
    dies = make(compile=compile)

    @dies.on(step.end(once=count), band="outer")
    def die():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(dies, resume=tmp_path, callbacks=[*every_callback(), Checkpoint(tmp_path, steps=1)])
    resumed = make(seed=7, compile=compile)
    callbacks = every_callback()
    again = fit(resumed, resume=tmp_path, callbacks=[*callbacks, Checkpoint(tmp_path)])
    assert resumed.losses == whole.losses[count:]
    assert again == rows
    for a, b in zip(whole.net.parameters(), resumed.net.parameters(), strict=True):
        assert torch.equal(a, b)
    assert resumed.optimizer.param_groups[0]["lr"] == whole.optimizer.param_groups[0]["lr"]
    assert not torch.are_deterministic_algorithms_enabled()


class torch_exact:
    """Deterministic algorithms for a while, as a run that can be resumed has them."""

    def __enter__(self):
        torch.use_deterministic_algorithms(True)

    def __exit__(self, *error):
        torch.use_deterministic_algorithms(False)


def test_files_and_what_is_in_them(tmp_path):
    trainer = make()
    checkpoint = Checkpoint(tmp_path / "run", monitor="valid_loss")
    rows = fit(trainer, callbacks=[checkpoint])
    assert files(tmp_path / "run") == ["best.pt", "last.pt"]
    saved = torch.load(checkpoint.last)
    assert saved["run"]["step"] == 18
    for name, value in trainer.net.state_dict().items():
        assert torch.equal(saved["net"][name], value)
    best = min(rows, key=lambda row: row["valid_loss"])["epoch"]
    assert torch.load(checkpoint.best)["run"]["epoch"] == best


def test_the_best_three(tmp_path):
    losses = iter([5.0, 3.0, 4.0, 6.0, 1.0, math.nan, 2.0, 9.0])
    checkpoint = Checkpoint(tmp_path, monitor="valid_loss", best=3, epochs=None)
    loop = Loop(lambda batch: None, callbacks=[checkpoint])
    loop.attach(epoch.end, lambda run: run.log(valid_loss=next(losses)))
    epochs = []
    loop.attach(epoch.end, lambda: epochs.append([e["epoch"] for e in checkpoint.entries]), "outer")
    loop.run([1], epochs=8)
    assert epochs == [[1], [2, 1], [2, 3, 1], [2, 3, 1], [5, 2, 3], [5, 2, 3], [5, 7, 2], [5, 7, 2]]
    assert files(tmp_path) == [
        "best-epoch-0002.pt", "best-epoch-0005.pt", "best-epoch-0007.pt", "best.pt", "last.pt",
    ]
    assert torch.load(checkpoint.best)["epoch"] == 5
    assert torch.load(tmp_path / "best-epoch-0007.pt")["epoch"] == 7


def test_higher_is_better_where_the_metric_says_so(tmp_path):
    trainer = make()
    checkpoint = Checkpoint(tmp_path, monitor="valid_accuracy", best=2)
    rows = fit(trainer, epochs=5, callbacks=[checkpoint])
    order = sorted(rows, key=lambda row: (-row["valid_accuracy"], row["epoch"]))
    assert [entry["epoch"] for entry in checkpoint.entries] == [row["epoch"] for row in order[:2]]
    unknown = Checkpoint(tmp_path, monitor="size", name="two")
    loop = Loop(lambda batch: None, callbacks=[unknown])
    loop.attach(epoch.end, lambda run: run.log(size=1))
    with pytest.raises(ValueError, match="say mode='max' or 'min'"):
        loop.run([1])


@pytest.mark.parametrize(
    ("options", "steps"),
    [({"steps": 5}, [5, 6, 10, 12, 15, 18]), ({"epochs": 2}, [12, 18]),
     ({"epochs": None}, [18]), ({"epochs": None, "minutes": 1e-9}, list(range(1, 19)))],
)
def test_when(options, steps, tmp_path):
    results = []

    class Watched(Checkpoint):
        def save(self, run, names=()):
            results.append(run.state.step)
            super().save(run, names)

    fit(make(), callbacks=[Watched(tmp_path, **options)])
    assert results == steps


@pytest.fixture
def deterministic():
    """Two runs are the same to the bit: no kernel takes over when it happens to be ready."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
def test_the_state_is_copied_before_it_is_written(tmp_path, monkeypatch):
    """The thread writes while training goes on; what it writes is of the moment of the copy."""
    go_on, real = threading.Event(), background_writer.write_state

    def slow(state, path):
        go_on.wait(20)
        real(state, path)

    monkeypatch.setattr(background_writer, "write_state", slow)
    trainer, then = make(), {}

    @trainer.on(step.end(once=5), band="checkpoint")
    def weights(run):
        then.update({name: value.clone() for name, value in run.net.state_dict().items()})

    trainer.attach(step.end(once=9), lambda: go_on.set())
    trainer.attach(step.end(once=9), lambda run: run.stop())
    fit(trainer, callbacks=[checkpoint := Checkpoint(tmp_path, steps=5, epochs=None)])
    monkeypatch.undo()
    assert torch.load(checkpoint.last)["run"]["step"] == 9  # the run's end
    go_on.clear()
    other = make()
    copies = []
    monkeypatch.setattr(background_writer, "write_state", lambda state, path: copies.append(state))
    fit(other, epochs=1, callbacks=[Checkpoint(tmp_path, steps=5, epochs=None)])
    for name, value in then.items():
        assert torch.equal(copies[0]["net"][name], value)


def fails(times, error):
    real, left = background_writer.write_state, [times]

    def save(state, path):
        if left[0]:
            left[0] -= 1
            raise error
        real(state, path)

    return save


@pytest.mark.parametrize("background", [True, False])
def test_a_full_disk_leaves_the_one_before(background, tmp_path, monkeypatch):
    trainer = make()

    @trainer.on(step.end(once=8))
    def fill():
        checkpoint._writer.wait()  # that of step 4 is there
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        monkeypatch.setattr(background_writer, "write_state", fails(100, full))

    checkpoint = Checkpoint(tmp_path, steps=4, epochs=None, background=background)
    with pytest.warns(UserWarning, match="was not written") as caught:
        fit(trainer, callbacks=[checkpoint])
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 4
    assert "last.pt of epoch 2, step 8 was not written: No space left on device (" in texts[0]
    assert "MiB are free there). That of epoch 1, step 4 is still there, whole" in texts[0]
    assert torch.load(checkpoint.last)["run"]["step"] == 4
    assert files(tmp_path) == ["last.pt"]
    assert trainer.state.step == 18


def test_best_ones_that_were_not_written_are_no_best_ones(tmp_path, monkeypatch):
    losses = iter([5.0, 4.0, 1.0, 3.0, 2.0])
    checkpoint = Checkpoint(tmp_path, monitor="valid_loss", best=2)
    loop = Loop(lambda batch: None, callbacks=[checkpoint])
    loop.attach(epoch.end, lambda run: run.log(valid_loss=next(losses)))

    @loop.on(epoch.start(once=3))
    def fill():
        checkpoint._writer.wait()
        full = OSError(errno.ENOSPC, "full")
        monkeypatch.setattr(background_writer, "write_state", fails(1, full))

    with pytest.warns(UserWarning, match=r"best-epoch-0003\.pt of epoch 3, step 3 was not written"):
        loop.run([1], epochs=4)
    assert [entry["epoch"] for entry in checkpoint.entries] == [4, 2]
    assert files(tmp_path) == ["best-epoch-0002.pt", "best-epoch-0004.pt", "best.pt", "last.pt"]
    assert torch.load(checkpoint.best)["epoch"] == 4
    assert torch.load(checkpoint.last)["persistence"]["objects"]["Checkpoint"]["kept"] == [
        {"epoch": 4, "value": 3.0}, {"epoch": 2, "value": 4.0}
    ]


FULL = """
import resource, sys, warnings
import flambeau as torch
from flambeau import nn
from flambeau.train import Checkpoint, Trainer, step
warnings.simplefilter("always")
net = nn.Linear(3000, 1)
trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), "mse", compile=False)
@trainer.on(step.end(once=2))
def full():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
x = torch.randn(16, 3000)
trainer.fit((x, x[:, :1]), batch_size=4, callbacks=[
    Checkpoint(sys.argv[1], steps=1, background=False)])
print("trained", trainer.state.step)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files")
def test_a_file_that_cannot_be_written_to_its_end(tmp_path):
    """The system itself refuses in the middle of the file."""
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path], cwd=ROOT, capture_output=True,
                          text=True, check=True)
    assert done.stdout == "trained 4\n"
    assert "step 2 was not written: File too large" in done.stderr
    assert torch.load(tmp_path / "last.pt")["run"]["step"] == 1
    assert files(tmp_path) == ["last.pt"]


def test_what_is_no_matter_of_the_disk_is_raised(tmp_path):
    trainer = make()

    @trainer.on(step.end)
    def wrong(run):
        run.persist("mine", function=lambda: None)

    with pytest.raises(Exception, match="lambda") as raised:
        fit(trainer, callbacks=[Checkpoint(tmp_path)])
    (note,) = [note for note in raised.value.__notes__ if note.startswith("while writing")]
    assert "['run']['persistence']['values']['mine']['function']" in note


def test_resume_leaves_a_file_aside_that_cannot_be_read(tmp_path, capsys):
    fit(make(), callbacks=[Checkpoint(tmp_path, monitor="valid_loss", mode="min")])
    last = tmp_path / "last.pt"
    last.write_bytes(last.read_bytes()[:2000])
    (tmp_path / ".last.pt.0123abcd.tmp").write_bytes(b"half of it")
    resumed = make()
    fit(resumed, callbacks=[Resume(tmp_path)])
    said = capsys.readouterr().err
    assert "the last process ended while it wrote last.pt" in said
    assert "last.pt cannot be read" in said
    assert "using best.pt instead" in said
    assert files(tmp_path) == ["best.pt", "last.pt"]
    (tmp_path / "best.pt").write_bytes(b"")
    with pytest.raises(RuntimeError, match=r"no checkpoint can be read: last\.pt.*best\.pt"):
        fit(make(), resume=tmp_path)


def test_resume_from_a_file_and_from_nothing(tmp_path, capsys):
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint .*last\.pt"):
        fit(make(), resume=tmp_path / "last.pt")
    first = make()
    rows = fit(first, resume=tmp_path / "new" / "folder", progress=False)
    assert capsys.readouterr().err == ""
    assert files(tmp_path / "new" / "folder") == ["last.pt"]
    over = make()
    assert fit(over, resume=tmp_path / "new" / "folder" / "last.pt") == rows
    assert over.losses == []
    longer = make()
    assert fit(longer, epochs=4, resume=tmp_path / "new" / "folder")[:3] == rows
    assert len(longer.losses) == 6


def test_what_does_not_fit_says_which_file(tmp_path):
    fit(make(), resume=tmp_path)
    other = Trainer(nn.Linear(3, 2), "adam", "cross_entropy", metrics=["accuracy"], compile=False)
    with pytest.raises(RuntimeError) as caught:
        fit(other, resume=tmp_path)
    assert caught.value.__notes__ == [f"while resuming from {tmp_path / 'last.pt'}"]
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_training_that_was_stopped_goes_on(tmp_path):
    """Stopped in an epoch's middle, by a time limit for instance: no handler counts it twice."""
    whole = make()
    with torch_exact():
        rows = fit(whole, callbacks=every_callback())
    first = make()
    first.attach(step.end(once=9), lambda run: run.stop())
    fit(first, resume=tmp_path, callbacks=every_callback())
    second = make(seed=3)
    assert fit(second, resume=tmp_path, callbacks=every_callback()) == rows
    assert second.losses == whole.losses[9:]


def test_a_loop_without_a_net(tmp_path):
    def new():
        loop, seen = Loop(lambda batch: batch), []
        loop.attach(step.end, lambda run: seen.append(run.state.batch))
        return loop, seen

    first, seen = new()
    first.attach(step.end(once=5), lambda: 1 / 0, "outer")
    with pytest.raises(ZeroDivisionError):
        first.run("abc", 2, callbacks=[Resume(tmp_path), Checkpoint(tmp_path, steps=2)])
    second, rest = new()
    second.run("abc", 2, callbacks=[Resume(tmp_path), Checkpoint(tmp_path, steps=2)])
    assert "".join(seen) == "abcab"
    assert "".join(rest) == "bc"


def test_other_threads_are_mentioned(tmp_path, capsys):
    fit(make(), epochs=1, resume=tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        fit(make(), resume=tmp_path)
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr().err
    assert f"may differ in the last bits: saved with threads {threads}, now {threads + 1}\n" in said


def test_a_finished_run_is_left_as_it_is(tmp_path):
    fit(make(), resume=tmp_path)
    before = (tmp_path / "last.pt").stat().st_mtime_ns
    fit(make(), resume=tmp_path)
    assert (tmp_path / "last.pt").stat().st_mtime_ns == before


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_of_every_kind(workers, tmp_path):
    """With a generator of their own, with workers, without a length."""
    def new():
        data = TensorDataset(X, Y)
        generator = torch.Generator().manual_seed(3)
        return DataLoader(data, 8, shuffle=True, generator=generator, num_workers=workers)

    whole = make()
    rows = whole.fit(new(), epochs=2, resume=tmp_path / "whole")  # so that it is exact
    dies = make()
    dies.attach(step.end(once=9), lambda: 1 / 0, "outer")
    with pytest.raises(ZeroDivisionError):
        dies.fit(new(), epochs=2, callbacks=[Checkpoint(tmp_path, steps=4)], resume=tmp_path)
    resumed = make(seed=4)
    assert resumed.fit(new(), epochs=2, resume=tmp_path) == rows
    assert resumed.losses == whole.losses[8:]


def test_curves_beside_the_checkpoints(tmp_path):
    fit(make(), callbacks=[Checkpoint(tmp_path, plot=True)])
    assert "curves.html" in files(tmp_path)


def test_best_of_nothing(tmp_path):
    with pytest.raises(ValueError, match="best=3 of what"):
        Checkpoint(tmp_path, best=3)


def test_two_of_one_name(tmp_path):
    trainer = make(callbacks=[Checkpoint(tmp_path)])
    with pytest.raises(ValueError, match="two callbacks persist under the name 'Checkpoint'"):
        trainer.use(Checkpoint(tmp_path / "other"))
    trainer.use(Checkpoint(tmp_path / "other", name="other"))


def test_a_number_that_is_never_there(tmp_path):
    trainer = make(callbacks=[Checkpoint(tmp_path, monitor="valid_los")])
    with pytest.raises(KeyError, match="there is no 'valid_los'.*Did you mean 'valid_loss'"):
        fit(trainer)
    assert trainer.state.epoch == 1


@pytest.mark.parametrize(
    "options", [{"best": 0}, {"steps": 0}, {"epochs": 1.5}, {"minutes": 0}, {"mode": "most"}]
)
def test_bad_options(options, tmp_path):
    with pytest.raises(ValueError, match="Checkpoint:|mode must be"):
        Checkpoint(tmp_path, monitor="loss", **options)


def test_numbers_and_arrays_of_numpy(tmp_path):
    """What people log and keep is often NumPy's; it must load as safely as the rest."""

    @callback(run, name="kept")
    def keeps(run):
        record = run.persist(
            best=np.float64(9), counts=np.zeros(2, np.int64), parts=[(np.int32(1),)])
        seen.append((record.best, record.counts.tolist(), record.parts))
        while True:
            yield epoch.end
            record.best = np.minimum(record.best, float(run.state.loss))
            record.counts = np.add(record.counts, [1, run.state.epoch])
            run.log(score=np.float32(0.5), rows=np.arange(3))

    seen: list = []
    for epochs in (2, 3):
        trainer = make()
        history = trainer.fit((X, Y), epochs=epochs, resume=tmp_path, callbacks=[keeps])
    (_, first, _), (best, counts, parts) = seen
    assert (first, counts, parts) == ([0, 0], [2, 3], [(1,)])
    assert 0 < best < 9
    assert [row["score"] for row in history] == [0.5] * 3
    assert all(row["rows"].tolist() == [0, 1, 2] for row in history)
    assert type(history[0]["rows"]) is np.ndarray
    assert torch.load(tmp_path / "last.pt")["run"]["history"]  # weights_only, as it is by default


def test_a_url_is_a_folder_that_fsspec_knows() -> None:
    upath = pytest.importorskip("upath")
    url = "memory://checkpoints/first"
    fit(make(), 3, resume=url, callbacks=[Checkpoint(url, monitor="loss", best=2)])
    names = sorted(path.name for path in upath.UPath(url).glob("*.pt"))
    assert names[-2:] == ["best.pt", "last.pt"]
    assert len(names) == 4
    resumed = make()
    history = fit(resumed, 5, resume=url)
    whole = fit(make(), 5, resume=Resume("memory://checkpoints/whole"))
    assert [row["loss"] for row in history] == [row["loss"] for row in whole]
    resumed.save("memory://checkpoints/other.pt")
    make().load("memory://checkpoints/other.pt")
    with pytest.raises(ValueError, match="plot=True needs a local folder"):
        Checkpoint(url, plot=True)
