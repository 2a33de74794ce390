"""Other libraries' habits: methods of callbacks (Poutyne, Keras) and hooks (torchnet)."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.train import Loop, Trainer, step
from flambeau.train.events.other_libraries import METHODS, TNT


def trainer(**options):
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    return Trainer(
        net, torch.optim.SGD(net.parameters(), lr=0.1), "mse", compile=False, **options
    )


X = torch.arange(8.0).reshape(4, 2)
BATCHES = [(X, X.sum(1, keepdim=True)), (X[:3] / 2, X[:3, :1])]


class Recorder:
    """A callback as Poutyne's and Keras's are written."""

    def __init__(self):
        self.seen = []

    def on_train_begin(self, logs):
        self.seen.append(("train_begin", logs))

    def on_epoch_begin(self, epoch_number, logs):
        self.seen.append(("epoch_begin", epoch_number))

    def on_train_batch_begin(self, batch_number, logs):
        self.seen.append(("batch_begin", batch_number))

    def on_backward_end(self, batch_number):
        self.seen.append(("backward_end", batch_number))

    def on_train_batch_end(self, batch_number, logs):
        self.seen.append(("batch_end", batch_number, sorted(logs)))

    def on_valid_begin(self, logs):
        self.seen.append(("valid_begin", sorted(logs)))

    def on_valid_batch_end(self, batch_number, logs):
        self.seen.append(("valid_batch_end", batch_number))

    def on_epoch_end(self, epoch_number, logs=None):
        self.seen.append(("epoch_end", epoch_number, sorted(logs)))

    def on_train_end(self, run):
        self.seen.append(("train_end", run.state.step))


def test_methods_of_a_callback():
    recorder = Recorder()
    trainer(callbacks=[recorder]).fit(BATCHES, BATCHES[:1], epochs=2)

    def epoch(n):
        return [
            ("epoch_begin", n),
            *[event for i in (1, 2) for event in (
                ("batch_begin", i), ("backward_end", i),
                ("batch_end", i, ["batch", "loss", "size"]),
            )],
            ("valid_begin", ["loss"]),
            ("valid_batch_end", 1),
            ("epoch_end", n, ["loss", "valid_loss"]),
        ]

    assert recorder.seen == [("train_begin", {}), *epoch(1), *epoch(2), ("train_end", 4)]


def test_every_method_is_an_event():
    assert all(name.startswith("on_") for name in METHODS)
    for name in METHODS:
        Loop(lambda batch: None).use(type("C", (), {name: lambda self: None})())


def test_methods_that_are_none():
    loop = Loop(lambda batch: None)
    with pytest.raises(ValueError, match=r"C\.on_epoch_ends names no event.*'on_epoch_end'"):
        loop.use(type("C", (), {"on_epoch_ends": lambda self: None})())
    with pytest.raises(TypeError, match="is not a callback"):
        loop.use(object())
    with pytest.raises(TypeError, match="is a class"):
        loop.use(Loop)
    with pytest.raises(TypeError, match="a function without an event"):
        loop.use(lambda run: None)
    assert not loop.handlers.handles


def test_hooks_in_training_and_in_a_test():
    engine, seen = trainer(), []

    def hook(name):
        def function(state):
            assert state["network"] is engine.net
            seen.append((name, state["epoch"], state["t"], state["train"]))

        return function

    for name in TNT:
        engine.hooks[name] = hook(name)
    assert list(engine.hooks) == list(TNT)
    assert len(TNT) == 9
    engine.fit(BATCHES[:1])
    training = (
        "on_start on_start_epoch on_sample on_forward_criterion on_forward on_backward on_update "
        "on_end_epoch on_end"
    )
    assert [name for name, *_ in seen] == training.split()
    assert seen[0][1:] == (0, 0, True)
    assert seen[-1][1:] == (1, 1, True)
    seen.clear()
    engine.evaluate(BATCHES)
    each = ["on_sample", "on_forward", "on_forward_criterion"]
    assert [name for name, *_ in seen] == ["on_start", *each, *each, "on_end"]
    assert not any(train for *_, train in seen)


def test_what_a_hook_sees():
    engine, seen = trainer(), []

    def on_forward(state):
        assert state["sample"] is BATCHES[0]
        seen.append((state["output"].shape, float(state["loss"]), engine.net.weight.grad is None))
        state["mine"] = 3

    engine.hooks["on_forward"] = on_forward
    engine.hooks["on_update"] = lambda state: seen.append(state["mine"])
    engine.fit(BATCHES[:1])
    assert seen[0][0] == (4, 1)
    assert not seen[0][2]  # as in torchnet, the gradients are there
    assert seen[1] == 3


def test_setting_a_hook_again_replaces_it():
    engine, seen = trainer(), []
    engine.hooks["on_update"] = lambda state: seen.append("first")
    engine.hooks["on_update"] = lambda state: seen.append("second")
    engine.fit(BATCHES[:1])
    del engine.hooks["on_update"]
    engine.fit(BATCHES[:1])
    assert seen == ["second"]
    with pytest.raises(KeyError, match=r"no hook 'on_forwad'.*'on_forward'"):
        engine.hooks["on_forwad"] = print
    with pytest.raises(TypeError):
        engine.hooks["on_forward"] = 3


def test_unknown_key_of_the_hooks_state():
    engine = trainer()
    engine.hooks["on_update"] = lambda state: state["sampel"]
    with pytest.raises(KeyError, match="'sample'"):
        engine.fit(BATCHES[:1])


def test_all_ways_in_share_one_list():
    engine, seen = trainer(), []
    engine.hooks["on_update"] = lambda state: seen.append("hook")
    engine.on(step.end)(lambda run: seen.append("decorator"))
    engine.use(type("C", (), {"on_step_end": lambda self, run: seen.append("method")})())

    def generator(run):
        while True:
            yield step.end
            seen.append("generator")

    engine.use(generator)
    engine.fit(BATCHES[:1])
    assert seen == ["hook", "decorator", "method", "generator"]


def test_methods_that_do_nothing_cost_nothing():
    """Those of a base class, of which a callback overrides what it needs."""

    class Base:
        def on_backward_end(self, batch_number):
            pass

        def on_epoch_end(self, epoch, logs):
            """Called at the end of an epoch."""

        def on_epoch_begin(self, epoch, logs):
            self.begun = epoch

    callback = Base()
    engine = trainer(callbacks=[callback])
    engine.fit(BATCHES)
    assert callback.begun == 1
    assert not engine.handlers.live["backward"]
