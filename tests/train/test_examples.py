"""The four styles are the same training; the other examples do what they say, on a few digits."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.train.training_step import step_function

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
STYLES = ("decorators", "hooks", "callbacks", "generators")


@pytest.fixture
def output(monkeypatch, capsys):
    """What an example prints. One thread: beside other tests, several wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    # Compiling takes longer than these trainings.
    monkeypatch.setattr(step_function.compiler, "compile", lambda step, **options: step)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", ["example", *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    yield run
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


@pytest.fixture
def few_steps(monkeypatch):
    """The examples get 512 digits, and are tested with 200 of them: that is learnt soon."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import mnist_data

    images, labels = mnist_data.load("train")
    counts = {"train": 512, "test": 200}
    monkeypatch.setattr(mnist_data, "load", lambda split: (
        images[: counts[split]], labels[: counts[split]]
    ))


def accuracies(text):
    return [float(value) for value in re.findall(r"accuracy (\S+)%", text)]


def the_same(output):
    first, *others = (output(f"train_{style}") for style in STYLES)
    assert others == [first] * 3
    assert first.endswith(" steps\n")
    return first


@pytest.mark.filterwarnings("ignore:Trainer. the step is not compiled")
def test_four_styles(output, few_steps):
    actual = the_same(output)
    assert re.match(r"epoch 1: loss fell by [01]\.\d{4}, accuracy", actual)
    *before, last = accuracies(actual)
    assert max(before) <= 93.5 < last  # they stop where they should
    assert actual.endswith(f"\n{8 * len([*before, last])} steps\n")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Trainer. the step is not compiled")
def test_four_styles_on_all_digits(output):
    actual = the_same(output)
    assert "epoch 1: loss fell by 2." in actual
    assert accuracies(actual)[-1] > 93.5


@pytest.mark.parametrize("style", STYLES)
def test_under_forty_lines(style):
    assert (EXAMPLES / f"train_{style}.py").read_text().count("\n") < 40


@pytest.mark.slow
def test_gan(output):
    off = [float(value) for value in re.findall(r"off the ring by (\S+)", output("train_gan"))]
    assert len(off) == 6
    assert off[-1] < 0.1 < off[0]


@pytest.mark.filterwarnings("ignore:Trainer. the step is not compiled")
def test_resume(output, few_steps, tmp_path, monkeypatch):
    from flambeau.train import Checkpoint

    whole = output("resume", tmp_path / "whole")
    real = Checkpoint.on_epoch_end

    def dies(self, run):
        real(self, run)
        if run.state.epoch == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "on_epoch_end", dies)
    with pytest.raises(KeyboardInterrupt):
        output("resume", tmp_path / "killed")
    monkeypatch.setattr(Checkpoint, "on_epoch_end", real)
    rest = output("resume", tmp_path / "killed").splitlines()
    assert "epoch 4: step 32" in "\n".join(rest)
    assert whole.splitlines()[-len(rest) + 3 :] == rest[3:]
    assert whole.splitlines()[-1].startswith("best: ")
    log = (tmp_path / "killed" / "log.csv").read_text()
    assert log == (tmp_path / "whole" / "log.csv").read_text()


@pytest.mark.filterwarnings("ignore:Trainer. the step is not compiled")
def test_kfold(output, few_steps):
    actual = output("kfold").splitlines()
    assert [line[:7] for line in actual[:5]] == [f"fold {i}:" for i in range(1, 6)]
    assert min(map(float, re.findall(r"best accuracy (\S+)%", "\n".join(actual)))) > 70
    assert actual[-1].startswith("5 folds: loss ")


@pytest.mark.usefixtures("few_steps")
def test_optuna_finds_the_best_trial(output) -> None:
    pytest.importorskip("optuna")
    text = output("optuna_search", "--trials", 3, "--epochs", 1)
    assert text.count("finished") == 3
    assert accuracies(text)[-1] > 20
