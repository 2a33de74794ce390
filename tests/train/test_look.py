"""Validation, tests and predictions are compiled as the step is, and give the same numbers."""

from __future__ import annotations

import time

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.trace import trace_signature
from flambeau.train import EMA, Trainer, epoch, forward, step
from flambeau.train.training_step import step_function, supervised
from flambeau.train.training_step.adaptive import Frequent

_FUNCTION_KEY = trace_signature._make_function_key  # which tests do without
torch.manual_seed(0)
X, Y = torch.randn(96, 5), torch.randint(0, 3, (96,))


def make_trainer(compile, **options):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5),
                        nn.Linear(16, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"], compile=compile,
                   **options)


def programs(trainer, what):
    whole = getattr(trainer.supervised._look(), what)
    compiled = getattr(whole._step, "_compiled", whole._step)
    return 0 if compiled is None else len(compiled._programs)


def until_compiled(trainer, what, use):
    end = time.monotonic() + 240
    while not programs(trainer, what) and time.monotonic() < end:
        use()
        time.sleep(0.02)  # threads of low priority compile meanwhile
    assert programs(trainer, what)


def test_the_same_numbers():
    fast, plain = make_trainer(True), make_trainer(False)
    until_compiled(fast, "look", lambda: fast.evaluate((X, Y)))
    until_compiled(fast, "predict", lambda: fast.predict(X))
    assert fast.evaluate((X, Y)) == pytest.approx(plain.evaluate((X, Y)), rel=1e-6)
    torch.testing.assert_close(fast.predict(X), plain.predict(X))
    with torch.no_grad():
        fast.net[0].weight.mul_(2)  # the program reads the weights of the moment
        plain.net[0].weight.mul_(2)
    assert fast.evaluate((X, Y)) == pytest.approx(plain.evaluate((X, Y)), rel=1e-6)
    assert fast.net.training


def test_a_few_batches_are_not_worth_it_unless_a_program_was_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_signature, "_make_function_key", _FUNCTION_KEY)
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    trainer = make_trainer(True)
    trainer.train_on_batch(X[:32], Y[:32])  # brings the compiler
    before = trainer.evaluate((X, Y))
    assert trainer.supervised._look().look._step is None
    until_compiled(trainer, "look", lambda: trainer.evaluate((X, Y)))
    later = make_trainer(True)
    later.train_on_batch(X[:32], Y[:32])
    assert later.evaluate((X, Y)) == pytest.approx(before, rel=1e-5)
    assert programs(later, "look")


def test_who_listens_to_forward_hears_it():
    trainer, heard = make_trainer(True), []
    until_compiled(trainer, "look", lambda: trainer.evaluate((X, Y)))
    trainer.attach(forward.end, lambda run: heard.append(float(run.state.loss)))
    trainer.evaluate((X, Y))
    assert len(heard) == 3


def test_averages_have_a_net_of_their_own():
    ema = EMA(0.5)
    trainer = make_trainer(True, callbacks=[ema])
    until_compiled(trainer, "predict", lambda: trainer.predict(X))
    trainer.fit((X, Y), epochs=2)
    assert not torch.equal(ema.net[0].weight, trainer.net[0].weight)
    ema.net.eval()
    torch.testing.assert_close(trainer.predict(X), ema.net(X))


@pytest.mark.parametrize("kind", ["module", "parameter", "optimizer", "accumulated"])
def test_hooks_are_called_at_every_step(kind, monkeypatch):
    """They are Python: where there is one, the step runs operator by operator, and says so."""
    monkeypatch.setattr(step_function, "_warned", False)
    trainer, seen = make_trainer(True), []
    until_compiled(trainer, "predict", lambda: trainer.predict(X))
    trainer.fit((X, Y), epochs=2)
    hook = {
        "module": trainer.net[2].register_forward_hook,
        "parameter": trainer.net[0].weight.register_hook,
        "optimizer": trainer.optimizer.register_step_post_hook,
        "accumulated": trainer.net[0].weight.register_post_accumulate_grad_hook,
    }[kind]
    handle = hook(lambda *arguments: seen.append(1))
    with pytest.warns(UserWarning, match="not compiled.* has a hook"):
        trainer.fit((X, Y), epochs=10)
    assert len(seen) == 30
    if kind == "module":
        trainer.predict(X)
        assert len(seen) == 33
    handle.remove()
    trainer.predict(X)
    assert not trainer.supervised.hooked


def _has_program(whole):
    return isinstance(whole, Frequent) and bool(whole.compiled._programs)


@pytest.mark.parametrize("kind", ["module", "parameter"])
def test_a_hook_that_comes_within_an_epoch(kind, monkeypatch):
    """It is called from the next step on, though a program has taken over."""
    monkeypatch.setattr(step_function, "_warned", True)
    trainer, seen = make_trainer(True), []
    whole = trainer.supervised
    end = time.monotonic() + 240
    while not _has_program(whole._whole) and time.monotonic() < end:
        trainer.fit((X, Y), epochs=4)
    of = {"module": trainer.net[2].register_forward_hook,
          "parameter": trainer.net[0].weight.register_hook}[kind]
    trainer.attach(step.end(once=2), lambda: of(lambda *arguments: seen.append(1)))
    trainer.fit((X, Y), batch_size=8)  # 12 steps
    assert len(seen) == 10


@pytest.mark.parametrize("long", [True, False])
def test_a_long_training_waits_for_its_program(long, monkeypatch):
    """The first step, which says how long, is a plain one; the third has the program."""
    monkeypatch.setattr(supervised, "_LONG", 0.0 if long else 1e9)
    losses = []
    for compile in (True, False):
        trainer = make_trainer(compile)
        trainer.attach(step.end, lambda run: losses.append(float(run.state.loss)))
        trainer.fit((X, Y), epochs=1)
        whole = trainer.supervised._whole
        if compile:
            assert (whole.first is not whole.compiled) is long
            assert whole.first.ready or not long
    assert losses[:3] == pytest.approx(losses[3:], rel=1e-5)


def test_in_an_exact_run_the_first_batch_is_compiled():
    torch.use_deterministic_algorithms(True)
    try:
        states = []
        for compile in (True, False):
            trainer = make_trainer(compile)
            result = trainer.evaluate((X, Y))
            states.append((torch.get_rng_state().tolist(), result["test_accuracy"]))
            assert not compile or programs(trainer, "look") == 1
        assert states[0] == states[1]
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("epochs", "asked"), [(2, False), (3, True)])
def test_validations_that_will_come_again_are_worth_it(epochs, asked):
    """Nine batches in all: a program is asked for at the first of them."""
    trainer, seen = make_trainer(True), []
    look = trainer.supervised._look().look
    trainer.attach(epoch.end(once=1), lambda: seen.append(look._step is not None))
    trainer.fit((X, Y), (X, Y), epochs)
    assert seen == [asked]


def test_a_smaller_last_batch_is_not_recorded_until_it_came_often():
    trainer = make_trainer(True)
    sizes = []
    trainer.fit((X, Y), epochs=2)
    frequent = trainer.supervised._whole
    assert isinstance(frequent, Frequent)
    compiled = frequent.compiled

    def noted(x, y):
        sizes.append(len(x))
        return compiled(x, y)

    noted.is_cached = lambda *batch: False
    frequent.compiled = noted
    trainer.fit((X[:40], Y[:40]), epochs=12)  # 32 and 8
    assert sizes.count(8) <= 4
    assert 8 in sizes  # from the ninth on
    sizes.clear()
    noted.is_cached = lambda x, y: len(x) == 7
    trainer.fit((X[:39], Y[:39]))  # 32 and 7
    trainer.fit((X[:38], Y[:38]))  # 32 and 6
    assert sorted(sizes) == [7, *([32] * sizes.count(32))]
    frequent.compiled = compiled
