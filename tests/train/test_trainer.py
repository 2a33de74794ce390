"""Trainer: what fit takes, the step against a hand-written one, evaluation, prediction."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.train import Outcome, Trainer, backward, epoch, forward, optim, run, step, valid
from flambeau.train import test as testing
from flambeau.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(20, 3)
Y = X.sum(1, keepdim=True) + 0.1


def make(lr=0.1, loss="mse", dropout=0.0, **options):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4, 1))
    options.setdefault("compile", False)
    return Trainer(net, torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9), loss, **options)


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.net.parameters()])


def by_hand(epochs, batch_size, lr=0.1):
    """The same training without a trainer: weights, and the mean loss of each epoch."""
    other = make(lr)
    net, optimizer, means = other.net, other.optimizer, []
    for _ in range(epochs):
        total = 0.0
        for x, y in zip(X.split(batch_size), Y.split(batch_size), strict=True):
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        means.append(total / len(Y))
    return weights(other), means


def test_as_a_hand_written_loop():
    trainer = make()
    rows = trainer.fit((X, Y), epochs=3, batch_size=8, shuffle=False)
    expected, means = by_hand(3, 8)
    assert torch.equal(weights(trainer), expected)
    assert [row["loss"] for row in rows] == means
    assert [row["epoch"] for row in rows] == [1, 2, 3]


@pytest.mark.parametrize("listened", [forward.start, forward.end, backward.end, optim.start])
def test_its_parts_give_the_same(listened):
    trainer, seen = make(), []
    trainer.attach(listened, lambda n: seen.append(n))
    trainer.fit((X, Y), epochs=3, batch_size=8, shuffle=False)
    assert torch.equal(weights(trainer), by_hand(3, 8)[0])
    assert seen == list(range(1, 10))


def test_parts_in_their_order():
    trainer, seen = make(), []

    @trainer.on(forward.end)
    def loss_is_there(run):
        assert run.state.loss.requires_grad
        assert run.net[0].weight.grad is None
        seen.append("forward")

    @trainer.on(backward.end)
    def gradients_are_there(run):
        seen.append("backward")
        run.before = run.net[0].weight.detach().clone()
        run.net[0].weight.grad.zero_()
        run.optimizer.param_groups[0]["momentum"] = 0

    @trainer.on(optim.end)
    def updated(run):
        seen.append("optim")
        assert torch.equal(run.net[0].weight, run.before)

    trainer.fit([(X, Y)])
    assert seen == ["forward", "backward", "optim"]


class Pairs:
    """A dataset of plain Python: no base class."""

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return X[i], Y[i]


@pytest.mark.parametrize(
    "data",
    [
        lambda: (X, Y),
        lambda: (X.numpy(), Y.numpy()),
        lambda: (X.numpy().astype(np.float64), Y.numpy().astype(np.float64)),
        lambda: TensorDataset(X, Y),
        lambda: Pairs(),
        lambda: DataLoader(TensorDataset(X, Y), batch_size=8),
        lambda: list(zip(X.split(8), Y.split(8), strict=True)),
    ],
    ids=["tensors", "arrays", "float64", "dataset", "plain", "loader", "batches"],
)
def test_what_fit_takes(data):
    trainer, data = make(), data()
    result = not isinstance(data, (DataLoader, list))
    options = {"batch_size": 8, "shuffle": False} if result else {}
    rows = trainer.fit(data, data, epochs=2, **options)
    assert torch.allclose(weights(trainer), by_hand(2, 8)[0])
    assert set(rows[0]) == {"epoch", "loss", "valid_loss"}
    assert trainer.state.batches == 3


def test_several_inputs():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 1)

        def forward(self, a, b):
            return self.linear(a) * b

    net = Net()
    trainer = Trainer(net, "sgd", "mse", compile=False)
    trainer.fit(((X, Y), Y), batch_size=10)
    trainer.fit(TensorDataset(X, Y, Y))
    assert trainer.predict((X, Y)).shape == (20, 1)
    assert torch.equal(trainer.predict((X, Y)), net(X, Y))


def test_arrays_are_shuffled():
    trainer, seen = make(), []
    trainer.attach(step.end, lambda run: seen.append(run.state.batch[0]))
    trainer.fit((X, Y), epochs=2, batch_size=20)
    assert not torch.equal(seen[0], X)
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0].sum(0).round(decimals=4), X.sum(0).round(decimals=4))


def test_gradients_accumulate():
    """Two batches of five are one of ten; what remains at the end is an update, too."""
    small, large = make(accumulate=2), make()
    updates = []
    small.attach(optim.end, lambda n: updates.append(n))
    small.fit((X[:15], Y[:15]), batch_size=5, shuffle=False, epochs=2)
    for _ in range(2):
        large.train_on_batch(X[:10], Y[:10])
        large.train_on_batch(X[10:15], Y[10:15])
    assert updates == [2, 3, 5, 6]
    assert torch.allclose(weights(small), weights(large), atol=1e-6)
    with pytest.raises(ValueError, match="accumulate must be at least 1 batch"):
        make(accumulate=0)


def test_gradients_are_clipped():
    norms, values = make(clip_norm=0.01), make(clip_value=0.001)
    for trainer in (norms, values):
        trainer.fit([(X, Y)])
    gradients = [p.grad for p in norms.net.parameters()]
    assert float(sum((g**2).sum() for g in gradients)) ** 0.5 == pytest.approx(0.01, rel=1e-3)
    assert max(float(p.grad.abs().max()) for p in values.net.parameters()) <= 0.0010001
    staged = make(clip_norm=0.01)
    staged.attach(backward.end, lambda: None)
    staged.fit([(X, Y)])
    assert torch.equal(weights(staged), weights(norms))


@pytest.mark.parametrize("precision", ["bfloat16", torch.float16])
def test_precision(precision):
    trainer, seen = make(precision=precision), []
    trainer.attach(step.end, lambda run: seen.append(run.state.y_pred.dtype))
    rows = trainer.fit((X, Y), (X, Y), epochs=5)
    assert set(seen) == {getattr(torch, str(precision).removeprefix("torch."))}
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert trainer.net[0].weight.dtype is torch.float32
    with pytest.raises(ValueError, match="precision must be"):
        make(precision="int8")


def test_metrics_in_training_validation_and_test():
    def bias(y_pred, y):
        return (y_pred - y).mean()

    trainer = make(lr=0.0, metrics={"mae": "mae", "bias": bias})
    (row,) = trainer.fit((X, Y), (X[:5], Y[:5]), batch_size=7)
    actual = trainer.evaluate((X, Y))
    assert set(row) == {
        "epoch", "loss", "mae", "bias", "valid_loss", "valid_mae", "valid_bias"
    }
    error = trainer.predict(X) - Y
    assert actual["test_mae"] == pytest.approx(float(error.abs().mean()), rel=1e-5)
    assert actual["test_bias"] == pytest.approx(float(error.mean()), rel=1e-4)
    assert row["loss"] == pytest.approx(float((error**2).mean()), rel=1e-5)
    assert row["valid_mae"] == pytest.approx(float(error[:5].abs().mean()), rel=1e-5)


def test_evaluation_leaves_no_trace():
    trainer = make(dropout=0.5)
    trainer.net[1].eval()  # frozen on purpose
    before = weights(trainer)
    seen = []
    trainer.attach(
        testing.step.end, lambda run: seen.append((run.net.training, run.state.training))
    )
    first, second = trainer.evaluate((X, Y)), trainer.evaluate((X, Y), prefix="")
    assert first["test_loss"] == second["loss"]
    assert seen == [(False, False)] * 2
    assert torch.equal(weights(trainer), before)
    assert all(p.grad is None for p in trainer.net.parameters())
    assert trainer.net.training
    assert not trainer.net[1].training
    assert trainer.state.training

    @trainer.on(testing.step.end)
    def fails():
        raise KeyError("test")

    with pytest.raises(KeyError):
        trainer.evaluate((X, Y))
    assert trainer.net.training
    assert torch.is_grad_enabled()


def test_evaluation_in_the_middle_of_an_epoch():
    trainer, alone = make(metrics=["mae"]), make(metrics=["mae"])

    @trainer.on(step.end)
    def look(run):
        loss, batch = run.state.loss, run.state.batch
        run.evaluate((X[:3], Y[:3]))
        assert run.state.loss is loss
        assert run.state.batch is batch

    (row,) = trainer.fit((X, Y), batch_size=8, shuffle=False)
    (expected,) = alone.fit((X, Y), batch_size=8, shuffle=False)
    assert row["mae"] == expected["mae"]
    assert row["loss"] == expected["loss"]
    assert "test_loss" in row


def test_predict():
    trainer = make()
    expected = trainer.net(X)
    for data in (X, X.numpy(), TensorDataset(X), DataLoader(TensorDataset(X, Y), batch_size=6)):
        assert torch.allclose(trainer.predict(data), expected)
    assert not trainer.predict(X).requires_grad
    twice = Trainer(type("Two", (nn.Module,), {"forward": lambda self, x: (x, {"y": x[:, 0]})})())
    first, second = twice.predict(X, batch_size=6)
    assert torch.equal(first, X)
    assert torch.equal(second["y"], X[:, 0])


def test_train_on_batch():
    trainer, seen = make(metrics=["mae"]), []
    trainer.attach(step.end | epoch.end, lambda run: seen.append(run.state.step))
    numbers = [trainer.train_on_batch(X, Y) for _ in range(5)]
    assert set(numbers[0]) == {"loss", "mae"}
    assert numbers[-1]["loss"] < numbers[0]["loss"]
    assert seen == [1, 2, 3, 4, 5]


def test_step_of_ones_own():
    trainer = make(metrics=["mae"])
    seen = []

    @trainer.step
    def body(run, batch):
        x, y = batch
        run.optimizer.zero_grad()
        y_pred = run.net(x)
        loss = F.mse_loss(y_pred, y)
        with run.scope(backward):
            loss.backward()
        run.optimizer.step()
        return Outcome(loss, y_pred, y)

    trainer.attach(backward.end, lambda n: seen.append(n))
    (row,) = trainer.fit((X, Y), batch_size=8, shuffle=False)
    expected, means = by_hand(1, 8)
    assert torch.equal(weights(trainer), expected)
    assert row["loss"] == means[0]
    assert row["mae"] > 0
    assert not trainer.state.loss.requires_grad
    assert seen == [1, 2, 3]


def test_what_a_step_may_return():
    trainer = make()

    @trainer.step
    def several(batch):
        return {"loss_a": batch[0].mean(), "loss_b": 2.0}

    @trainer.eval_step
    def look(batch):
        return {"distance": 1}

    (row,) = trainer.fit((X, Y), (X, Y), batch_size=8, shuffle=False)
    assert row["loss_a"] == pytest.approx(float(X.mean()), rel=1e-4)
    assert (row["loss_b"], row["valid_distance"]) == (2.0, 1.0)

    @trainer.step
    def wrong(batch):
        return "loss"

    with pytest.raises(TypeError, match="a step returns a loss"):
        trainer.fit((X, Y))


def test_two_optimizers():
    nets = nn.ModuleDict({"a": nn.Linear(3, 1), "b": nn.Linear(3, 1)})
    optimizers = {name: torch.optim.SGD(net.parameters(), lr=0.1) for name, net in nets.items()}
    trainer = Trainer(nets, optimizers, compile=False)

    @trainer.step
    def body(run, batch):
        losses = {}
        for name, optimizer in run.optimizers.items():
            optimizer.zero_grad()
            losses[name] = loss = F.mse_loss(run.net[name](batch[0]), batch[1])
            loss.backward()
            optimizer.step()
        return losses

    rows = trainer.fit((X, Y), epochs=4)
    assert rows[-1]["a"] < rows[0]["a"]
    assert rows[-1]["b"] < rows[0]["b"]
    assert list(trainer.state_dict()["optimizers"]) == ["a", "b"]


def test_stopped_in_validation():
    trainer = make()
    trainer.attach(valid.step.end, lambda run: run.stop())
    (row,) = trainer.fit((X, Y), (X, Y), epochs=3, batch_size=5)
    assert set(row) == {"epoch", "loss"}


def test_evaluation_of_a_run_that_was_stopped():
    trainer, seen = make(), []
    trainer.attach(step.end, lambda run: run.stop())
    trainer.attach(run.end, lambda run: seen.append(len(run.predict(X, batch_size=5))))
    trainer.attach(epoch.end, lambda logs: seen.append(logs))
    (row,) = trainer.fit((X, Y), (X, Y), batch_size=5)
    assert seen == [{"loss": row["loss"]}, 20]
    numbers = trainer.evaluate((X, Y), batch_size=5)
    error = trainer.predict(X, batch_size=5) - Y
    assert numbers["test_loss"] == pytest.approx(float((error**2).mean()), rel=1e-5)


def test_stopped_before_the_first_step():
    trainer = make(metrics=["mae"])
    trainer.attach(epoch.start, lambda run: run.stop())
    assert trainer.fit((X, Y), (X, Y)) == [{"epoch": 1}]


def test_logs_of_a_step_on_its_own():
    trainer, seen = make(metrics=["mae"]), []
    trainer.attach(step.end, lambda logs: seen.append(logs))
    numbers = trainer.train_on_batch(X, Y)
    assert seen[0]["mae"] == numbers["mae"]
    assert seen[0]["loss"] == pytest.approx(numbers["loss"])
    assert seen[0]["size"] == 20


class Fails:
    """What flambeau.compile may do; the call counts."""

    def __init__(self, at_once):
        self.at_once, self.calls = at_once, 0

    def __call__(self, function, **options):
        if self.at_once:
            raise NotImplementedError("no compiler today")

        def compiled(x, y):
            self.calls += 1
            torch.rand(3)
            raise NotImplementedError("cannot compile that")

        return compiled


@pytest.mark.parametrize("at_once", [True, False])
def test_falls_back_to_eager_and_says_so_once(at_once, monkeypatch):
    from flambeau.train.training_step import step_function

    fails = Fails(at_once)
    monkeypatch.setattr(step_function.compiler, "compile", fails)
    monkeypatch.setattr(step_function, "_warned", False)
    trainer, eager = make(compile=True, dropout=0.5), make(dropout=0.5)
    torch.manual_seed(2)
    with pytest.warns(UserWarning, match=r"not compiled.*compile=False") as caught:
        trainer.fit((X, Y), epochs=3, batch_size=8, shuffle=False)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert fails.calls == (not at_once)
    torch.manual_seed(2)
    eager.fit((X, Y), epochs=3, batch_size=8, shuffle=False)
    assert torch.equal(weights(trainer), weights(eager))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(compile=True).fit((X, Y))


def test_uses_what_compile_returns(monkeypatch):
    from flambeau.train.training_step import step_function

    calls = []

    def compile(function, **options):
        def compiled(x, y):
            calls.append(len(x))
            return function(x, y)

        return compiled

    monkeypatch.setattr(step_function.compiler, "compile", compile)
    trainer = make(compile=True)
    trainer.fit((X, Y), batch_size=8, shuffle=False)
    assert calls == [8, 8, 4]
    with trainer.attach(forward.end, lambda: None):
        trainer.fit((X, Y))
    assert len(calls) == 3
    trainer.fit((X, Y))
    assert len(calls) == 4


# ---- bad input: errors before the first step ----


def unchanged(trainer, message, kind=ValueError, data=(X, Y), **options):
    before = None if trainer.net is None else weights(trainer)
    with pytest.raises(kind, match=message):
        trainer.fit(data, **options)
    assert before is None or torch.equal(weights(trainer), before)


def test_empty_data():
    unchanged(make(), "the loader is empty", data=[])
    unchanged(make(), "empty: it has no samples", data=TensorDataset(X[:0], Y[:0]))
    unchanged(make(), "empty: it has no samples", data=(X[:0], Y[:0]))
    loader = DataLoader(TensorDataset(X, Y), batch_size=32, drop_last=True)
    unchanged(make(), "20 samples make no batch of 32 with drop_last=True", data=loader)
    with pytest.raises(ValueError, match="valid: the loader is empty"):
        make().fit((X, Y), [])


def test_nothing_to_train():
    trainer = make()
    trainer.net.requires_grad_(False)
    unchanged(trainer, "no trainable parameters: all 4 have requires_grad=False")
    net = nn.Tanh()
    with pytest.raises(ValueError, match="Tanh has no trainable parameters"):
        Trainer(net, make().optimizer, "mse").fit((X, Y))
    other = make()
    other.optimizer = torch.optim.SGD(make().net.parameters(), lr=0.1)
    unchanged(other, "none of the optimizer's parameters belongs to trainer.net")


def test_loss_that_is_no_scalar():
    for listened in (False, True):
        trainer = make(loss=lambda a, b: (a - b) ** 2)
        if listened:
            trainer.attach(forward.end, lambda: None)
        unchanged(trainer, r"the loss has shape \(20, 1\), but training needs a scalar")


def test_parts_that_are_missing_or_wrong():
    net = nn.Linear(3, 1)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    for trainer, missing in (
        (Trainer(None, sgd, "mse"), "net"),
        (Trainer(net, None, "mse"), "optimizer"),
        (Trainer(net, sgd), "loss"),
    ):
        with pytest.raises(ValueError, match=f"training needs an? {missing}"):
            trainer.fit((X, Y))
    with pytest.raises(TypeError, match=r"net is a flambeau\.nn\.Module"):
        Trainer(lambda x: x)
    with pytest.raises(ValueError, match=r"no optimizer 'adm'.*'adam'"):
        Trainer(net, "adm")
    with pytest.raises(TypeError, match="optimizer is"):
        Trainer(net, 0.1)
    with pytest.raises(ValueError, match=r"no loss 'cross_entrop'.*'cross_entropy'"):
        Trainer(net, sgd, "cross_entrop")
    with pytest.raises(TypeError, match=r"give an instance, MSELoss\(\)"):
        Trainer(net, sgd, nn.MSELoss)
    lbfgs = Trainer(net, torch.optim.LBFGS(net.parameters()), "mse")
    with pytest.raises(ValueError, match=r"LBFGS evaluates the loss several times.*closure"):
        lbfgs.fit((X, Y))
    with pytest.raises(AttributeError, match="model"):
        Trainer(net, sgd, "mse").model  # noqa: B018


def test_data_that_does_not_fit():
    unchanged(make(), "arrays have different lengths", data=(X, Y[:3]))
    unchanged(make(), "expected a loader, a dataset", kind=TypeError, data=3)
    unchanged(make(), "a batch is .input, target., got a tensor", data=[X])
    loader = DataLoader(TensorDataset(X, Y), batch_size=5)
    unchanged(make(), "a loader has its own", data=loader, batch_size=3)


def test_names_of_optimizers_and_losses():
    for optimizer in ("adam", "SGD", "AdamW"):
        net = nn.Linear(3, 1)
        trainer = Trainer(net, optimizer, "smooth_l1", compile=False)
        assert type(trainer.optimizer).__name__.lower() == optimizer.lower()
        trainer.fit((X, Y))


def test_losses_by_name():
    """All of nn.functional, whatever its name ends with."""
    net, target = nn.Linear(3, 1), (X.sum(1, keepdim=True) > 0).float()
    for loss in ("binary_cross_entropy_with_logits", "kl_div", "mse", "huber", "soft_margin_loss"):
        (row,) = Trainer(net, "sgd", loss, compile=False).fit((X, target))
        assert isinstance(row["loss"], float)


@pytest.mark.parametrize(
    ("short", "name"),
    [("bce", "binary_cross_entropy"), ("bce_with_logits", "binary_cross_entropy_with_logits"),
     ("ce", "cross_entropy"), ("mae", "l1_loss"), ("l1", "l1_loss"), ("nll", "nll_loss")],
)
def test_losses_by_short_names(short, name):
    assert Trainer(nn.Linear(3, 1), "sgd", short).loss is getattr(nn.functional, name)


def test_other_parts_take_effect():
    trainer, fresh = make(), make()
    trainer.fit([(X, Y)])
    trainer.net = fresh.net
    trainer.optimizer = fresh.optimizer
    trainer.loss = lambda y_pred, y: 0 * F.mse_loss(y_pred, y)
    before = weights(fresh)
    (row,) = trainer.fit([(X, Y)])
    assert row["loss"] == 0
    assert torch.equal(weights(fresh), before)
    trainer.loss = F.mse_loss
    trainer.fit([(X, Y)])
    assert not torch.equal(weights(fresh), before)


@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.1}, {"precision": "bfloat16"}])
def test_accumulation_is_compiled(options):
    """Also for a smaller last batch, and a round of batches that the epoch's end cuts short."""
    losses, trainers = [], []
    for compile in (False, True):
        torch.manual_seed(0)
        trainer, seen = make(dropout=0.3, compile=compile, accumulate=4, **options), []
        trainer.attach(step.end, lambda run, seen=seen: seen.append(run.state.loss.item()))
        trainer.fit((X, Y), epochs=5, batch_size=3)
        losses.append(seen)
        trainers.append(trainer)
    assert losses[1] == pytest.approx(losses[0], rel=1e-3 if "precision" in options else 1e-5)
    torch.testing.assert_close(weights(trainers[1]), weights(trainers[0]), rtol=1e-3, atol=1e-5)
    assert len(trainers[1].supervised._whole._compiled._programs) >= 3


def test_why_it_is_not_compiled_is_said(monkeypatch):
    from flambeau.train.training_step import step_function

    for options, why in (({}, "listens to backward"), ({"precision": "float16"}, "float16 scales")):
        monkeypatch.setattr(step_function, "_warned", False)
        trainer = make(compile=True, **options)
        if not options:
            trainer.attach(backward.end, lambda: None)
        with pytest.warns(UserWarning, match=f"the step is not compiled.*{why}"):
            trainer.fit((X, Y))


def test_evaluations_have_numbers_for_those_who_listen():
    """At the end all of them; at each batch those of the batch, and the metrics as they stand."""
    trainer, seen = make(), {}
    for stage in (valid, testing):
        trainer.attach(stage.end, lambda logs, stage=stage: seen.update({stage.name: logs}))
        name = stage.step.name
        trainer.attach(stage.step.end, lambda logs, name=name: seen.update({name: logs}))
    trainer.fit((X, Y), (X, Y), batch_size=len(X))
    row = trainer.history[0]
    assert seen["valid"]["valid_loss"] == row["valid_loss"]
    assert seen["valid.step"]["loss"] == pytest.approx(row["valid_loss"])
    assert seen["valid.step"]["size"] == len(X)
    actual = trainer.evaluate((X[:5], Y[:5]), batch_size=5)
    assert seen["test"]["test_loss"] == actual["test_loss"]
    assert seen["test.step"]["loss"] == pytest.approx(actual["test_loss"])


def test_a_step_on_its_own_after_a_run_was_stopped():
    trainer = make()
    trainer.attach(step.end(once=1), lambda run: run.stop())
    trainer.fit((X, Y), epochs=2, batch_size=5)
    assert trainer.train_on_batch(X, Y)["loss"] > 0


def test_a_loss_that_changes_its_kind():
    losses = iter([lambda a, b: F.mse_loss(a, b), lambda a, b: F.mse_loss(a, b).item(),
                   lambda a, b: F.mse_loss(a, b), lambda a, b: (a - b).square()])
    trainer = make(loss=lambda a, b: next(losses)(a, b))
    for message, kind in (("the loss is a float", TypeError), ("has shape", ValueError)):
        with pytest.raises(kind, match=message):
            trainer.fit([(X, Y)] * 2)


def test_what_the_graph_holds_is_let_go():
    outputs = []

    class Keeping(nn.Linear):
        def forward(self, input):
            outputs.append(super().forward(input))
            return outputs[-1]

    net = Keeping(3, 1)
    trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.0), "mse", compile=False)
    seen = []
    trainer.attach(step.end, lambda run: seen.append((run.state.y_pred, run.state.loss)))
    trainer.fit([(X, Y)] * 3)
    for y_pred, loss in seen:
        assert not y_pred.requires_grad
        assert not loss.requires_grad
    assert all(y.requires_grad for y in outputs[-2:])  # what the user has is as it was


def test_an_eager_step_drops_the_graph_of_its_results_in_place():
    """Whether a result has other holders is read off its reference count, in `_drop_graph`."""
    from flambeau.train.training_step.step_function import build_train_step

    net, outputs = nn.Linear(4, 1), []

    def loss(y_pred, y):
        outputs.append(id(y_pred))
        return ((y_pred - y) ** 2).mean()

    step = build_train_step(net, loss, (), None, None, recorded=False)
    _, y_pred = step(torch.ones(2, 4), torch.ones(2, 1))
    assert id(y_pred) == outputs[0]
    assert not y_pred.requires_grad

    handle = net.register_forward_hook(lambda *call: outputs.append(call[2]))
    _, y_pred = step(torch.ones(2, 4), torch.ones(2, 1))
    assert outputs[1] is not y_pred
    assert outputs[1].requires_grad
    handle.remove()
