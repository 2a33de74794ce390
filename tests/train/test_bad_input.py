"""What is not meant so is said so, before it does harm."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.optim.lr_scheduler import StepLR
from flambeau.train import (
    Checkpoint, CSVLogger, EarlyStopping, Loop, Progress, Schedule, Scope, Trainer, epoch, forward,
    run, step,
)
from flambeau.train.metrics import Accuracy

torch.manual_seed(0)
X, Y = torch.randn(24, 4), torch.randint(0, 2, (24,))


def make_trainer(loss="cross_entropy", compile=False, **options):
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return Trainer(net, optimizer, loss, compile=compile, **options)


def generator(run):
    yield epoch.end


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [(generator, "list of callbacks, got generator"),
     (EarlyStopping("loss"), "list of callbacks, got EarlyStopping"),
     (None, "list of callbacks, got NoneType"),
     ([generator(None)], "give the generator function generator itself"),
     ([None], "NoneType is not a callback"), ([EarlyStopping], "is a class: use EarlyStopping")],
)
def test_callbacks(callbacks, message):
    with pytest.raises(TypeError, match=message):
        make_trainer().fit((X, Y), callbacks=callbacks)
    with pytest.raises(TypeError, match=message):
        Loop(lambda batch: None, callbacks=callbacks)


@pytest.mark.parametrize(
    ("data", "message"),
    [((X,), r"one tuple with the target .*: fit\(\(x, y\)"),
     (({"x": X, "y": Y},), "expected a loader, a dataset, or arrays .*, got dict"),
     (("text",), "got str"), ((None,), "got NoneType")],
)
def test_data(data, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make_trainer().fit(*data)


def test_a_step_of_ones_own_takes_a_single_array():
    trainer = make_trainer()
    trainer.step(lambda batch: trainer.net(batch[0]).square().mean())
    assert trainer.fit(X)[0]["loss"] > 0


def test_sizes():
    with pytest.raises(ValueError, match="batch_size"):
        make_trainer().fit((X, Y), batch_size=0)
    with pytest.raises(ValueError, match="clip_norm must be positive, got -1"):
        make_trainer(clip_norm=-1)
    with pytest.raises(ValueError, match="ReLU has no trainable parameters"):
        Trainer(nn.ReLU(), "sgd", "mse")


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize(
    ("loss", "message"),
    [(lambda y_pred, y: 3.0, "the loss is a float"), (lambda y_pred, y: None, "is a NoneType"),
     (lambda y_pred, y: y_pred.sum(1), r"the loss has shape \(24,\)")],
)
def test_losses(loss, message, compile):
    trainer, steps = make_trainer(loss, compile), []
    trainer.attach(step.end, lambda: steps.append(1))
    before = trainer.net.weight.detach().clone()
    with pytest.raises((TypeError, ValueError), match=message):
        trainer.fit((X, Y))
    assert not steps and torch.equal(before, trainer.net.weight)


def test_stopping_something_else():
    with pytest.raises(ValueError, match="stop ends run, epoch or train, not 'epoch'"):
        make_trainer().stop("epoch")


def test_scopes_of_ones_own_have_names_of_their_own():
    with pytest.raises(ValueError, match="'step' is a scope of every run"):
        Scope("step")
    assert Scope("stepping")(every=2).start.name == "stepping.start"


def test_a_misspelt_event_in_a_generator():
    def misspelt(run):
        yield "epoch.edn"

    with pytest.raises(ValueError, match="no event 'epoch.edn'. Did you mean 'epoch.end'"):
        make_trainer().fit((X, Y), callbacks=[misspelt])


def test_an_event_by_name_in_a_generator():
    seen = []

    def named(run):
        seen.append((yield "epoch.end"))

    make_trainer().fit((X, Y), callbacks=[named])
    assert seen == [epoch.end]


def test_a_function_of_the_run_and_its_logs():
    trainer, seen = make_trainer(), []
    trainer.attach(epoch.end, lambda run, logs: seen.append((run, sorted(logs))))
    trainer.attach(run.end, lambda n, logs: seen.append((n, sorted(logs))))
    trainer.fit((X, Y))
    assert seen == [(trainer, ["loss"]), (1, ["loss"])]


DETACHED = {
    "loss": lambda y_pred, y: nn.functional.cross_entropy(y_pred, y).detach(),
    "output": lambda y_pred, y: nn.functional.cross_entropy(y_pred.detach(), y),
    "other": lambda y_pred, y: torch.tensor(1.0),
}


@pytest.mark.parametrize("kind", DETACHED)
@pytest.mark.parametrize("options", [{}, {"compile": True}, {"accumulate": 2}], ids=str)
def test_a_loss_without_a_way_back(kind, options):
    trainer = make_trainer(DETACHED[kind], **options)
    before = trainer.net.weight.detach().clone()
    with pytest.raises(ValueError, match=r"the loss does not require grad.* was detached"):
        trainer.fit((X, Y))
    assert torch.equal(trainer.net.weight, before)
    trainer.attach(forward.end, lambda: None)
    with pytest.raises(ValueError, match="the loss does not require grad"):
        trainer.fit((X, Y))


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_is_a_file(tmp_path, resume):
    file, trainer = tmp_path / "runs", make_trainer()
    file.write_text("mine")
    for folder in (file, file / "inside"):
        with pytest.raises(NotADirectoryError, match="runs"):
            if resume:
                trainer.fit((X, Y), resume=folder)
            else:
                trainer.fit((X, Y), callbacks=[Checkpoint(folder)])
    assert trainer.state.step == 0
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    "work",
    [lambda t: t.evaluate(X), lambda t: t.evaluate((X,)), lambda t: t.fit((X, Y), X),
     lambda t: t.fit((X, Y), (X.numpy(),))],
)
def test_arrays_without_a_target(work):
    with pytest.raises(ValueError, match=r"(evaluate|valid): pass arrays as .* \(x, y\)"):
        work(make_trainer())


def test_inputs_and_targets_to_predict():
    with pytest.raises(TypeError) as raised:
        make_trainer().predict((X, Y))
    assert "predict(x)" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("name", "instead"),
    [("model", "trainer.net"), ("network", "trainer.net"), ("terminate", "run.stop()"),
     ("terminate_epoch", "run.stop(epoch)"), ("add_event_handler", "attach(event, function)"),
     ("fit_generator", "fit(loader"), ("stop_training", "run.stop()")],
)
def test_names_of_other_libraries(name, instead):
    trainer = make_trainer()
    with pytest.raises(AttributeError) as raised:
        getattr(trainer, name)
    assert f"no '{name}'" in str(raised.value)
    assert instead in str(raised.value)
    with pytest.raises(AttributeError, match=f"no '{name}'"):
        setattr(trainer, name, True)
    assert name not in dir(trainer)


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda t: StepLR(t.optimizer, 1), r"StepLR is a scheduler: Schedule\(\.\.\.\) steps it"),
     (lambda t: Accuracy(), r"Accuracy is a metric: Trainer\(\.\.\., metrics=\[\.\.\.\]\)"),
     (lambda t: Schedule(StepLR), "not the class StepLR: a function of the optimizer")],
)
def test_what_belongs_elsewhere(make, message):
    trainer = make_trainer()
    with pytest.raises(TypeError, match=message):
        trainer.fit((X, Y), callbacks=[make(trainer)])


def test_a_schedule_of_another_optimizer():
    trainer = make_trainer()
    other = torch.optim.SGD(trainer.net.parameters(), lr=0.1)
    for schedule in (Schedule(StepLR(other, 1)), Schedule(lambda optimizer: StepLR(other, 1))):
        with pytest.raises(ValueError, match="the StepLR belongs to another optimizer"):
            trainer.fit((X, Y), callbacks=[schedule])
    assert trainer.state.step == 0


def test_a_schedule_where_the_run_has_no_optimizer():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    for run_ in (Loop(lambda batch: optimizer.step()), Trainer(None)):
        run_.step(lambda batch: optimizer.step())
        run_.run([1, 2], callbacks=[Schedule(StepLR(optimizer, 1, gamma=0.5), name="own")])
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_the_class_of_an_optimizer():
    with pytest.raises(TypeError, match=r"the class SGD: give SGD\(net.parameters\(\), ...\)"):
        Trainer(nn.Linear(4, 2), torch.optim.SGD, "cross_entropy")


def test_the_state_of_another_optimizer():
    saved = make_trainer().state_dict()
    trainer = make_trainer()
    trainer.optimizer = torch.optim.Adam(trainer.net.parameters())
    with pytest.raises(ValueError, match="state of 'optimizer' is not one of Adam: .*betas"):
        trainer.load_state_dict(saved)


def test_kinds_of_progress():
    with pytest.raises(ValueError, match="progress must be one of .*, not 'tqmd'"):
        Progress("tqmd")


@pytest.mark.parametrize("every", ["runs", 0, 1.5, True])
def test_every_of_loggers(every):
    with pytest.raises(ValueError, match="CSVLogger: every must be at least 1 step, not"):
        CSVLogger("log.csv", every)


def test_a_log_that_is_a_folder(tmp_path):
    (tmp_path / "log").mkdir()
    with pytest.raises(IsADirectoryError, match="log"):
        make_trainer().fit((X, Y), callbacks=[CSVLogger(tmp_path / "log")])
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
