"""One fresh process of train.py: what one engine's steps cost, and its MNIST training.

    python train_engines.py {flambeau,torch,ignite,poutyne} EPOCHS [--digits]

Prints a line of JSON: seconds by row. "torch" is the loop written by hand. `--digits`: MNIST alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
THREADS = 2
REPEATS = 101
EMPTY_STEPS = 5_000
SMALL_STEPS = 250
CHUNKS = 10  # into which a run is cut
HANDLERS = (0, 5)
BATCH = 64
READY = 1.0  # seconds in which what is compiled beside the first steps is there


class Watched:
    """Batches that note how long each tenth of them was in work.

    What disturbs a machine only makes it slower, so the fastest tenths say what a step costs; and
    what an engine does once a run is left out.
    """

    def __init__(self, batches: list) -> None:
        self.batches, self.times = batches, []

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self):
        size = len(self.batches) // CHUNKS
        for start in range(0, len(self.batches), size):
            begin = time.perf_counter()
            yield from self.batches[start : start + size]
            self.times.append((time.perf_counter() - begin) / size)


def differences(makers: dict, make_bare, batches: list) -> dict[str, float]:
    """Seconds a step that each engine takes more than a loop by hand: all run in turn, and of the
    tenths that came one after the other the fastest quarter counts."""
    watched = {row: Watched(batches) for row in [*makers, ""]}
    runs = {row: (makers.get(row) or make_bare)(data) for row, data in watched.items()}
    for run in runs.values():
        run()
    time.sleep(READY)
    rounds = {row: [] for row in runs}
    for i in range(REPEATS):
        for row in runs if i % 2 else reversed(runs):
            watched[row].times = []
            runs[row]()
            rounds[row].append(watched[row].times)
    bare, results = rounds.pop(""), {}
    for row, times in rounds.items():
        pairs = sorted(
            # An engine that counts its batches does not come to the end of the last tenth.
            (pair for both in zip(times, bare, strict=True) for pair in zip(*both, strict=False)),
            key=sum,
        )
        results[row] = statistics.median(a - b for a, b in pairs[: len(pairs) // 4])
    return results


class FlambeauEngine:
    """flambeau.train."""

    @staticmethod
    def imported():
        import flambeau.train  # noqa: F401

    @staticmethod
    def empty(step, data, handlers):
        from flambeau.train import Loop
        from flambeau.train import step as stage

        loop = Loop(step)
        for _ in range(handlers):
            loop.attach(stage.end, lambda run: None)
        return lambda: loop.run(data)

    @staticmethod
    def training(net, optimizer, loss, data, handlers=0, compile=False):
        from flambeau.train import Trainer
        from flambeau.train import step as stage

        trainer = Trainer(net, optimizer, loss, compile=compile)
        for _ in range(handlers):
            trainer.attach(stage.end, lambda run: None)
        return lambda: trainer.fit(data)

    @staticmethod
    def epochs(net, optimizer, loss, data, valid, count, over):
        from flambeau.train import Trainer, epoch

        trainer = Trainer(net, optimizer, loss, metrics=["accuracy"])
        trainer.attach(epoch.end, lambda run: over(run.metric("valid_accuracy")))
        trainer.fit(data, valid, count)


class TorchEngine:
    """No engine: the loop that is written by hand."""

    @staticmethod
    def imported():
        import torch  # noqa: F401

    @staticmethod
    def training(net, optimizer, loss, data, handlers=0, compile=False):
        def step(x, y):
            optimizer.zero_grad()
            value = loss(net(x), y)
            value.backward()
            optimizer.step()
            return value

        if compile:
            import torch

            step = torch.compile(step)

        def run():
            for x, y in data:
                step(x, y)

        return run

    @classmethod
    def epochs(cls, net, optimizer, loss, data, valid, count, over):
        import mnist

        work = cls.training(net, optimizer, loss, data)
        for _ in range(count):
            net.train()
            work()
            over(mnist.test(net, valid)[1])


class IgniteEngine:
    """ignite's Engine and its supervised trainer."""

    @staticmethod
    def imported():
        import ignite.engine
        import ignite.metrics  # noqa: F401

    @staticmethod
    def _with_handlers(engine, handlers):
        from ignite.engine import Events

        for _ in range(handlers):
            engine.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: None)
        return engine

    @classmethod
    def empty(cls, step, data, handlers):
        from ignite.engine import Engine

        engine = cls._with_handlers(Engine(step), handlers)
        return lambda: engine.run(data, max_epochs=1)

    @classmethod
    def training(cls, net, optimizer, loss, data, handlers=0):
        from ignite.engine import create_supervised_trainer

        engine = cls._with_handlers(create_supervised_trainer(net, optimizer, loss), handlers)

        def run():
            net.train()
            engine.run(data, max_epochs=1)

        return run

    @staticmethod
    def epochs(net, optimizer, loss, data, valid, count, over):
        from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
        from ignite.metrics import Accuracy

        engine = create_supervised_trainer(net, optimizer, loss)
        evaluator = create_supervised_evaluator(net, metrics={"accuracy": Accuracy()})

        @engine.on(Events.EPOCH_COMPLETED)
        def test(engine):
            over(evaluator.run(valid).metrics["accuracy"])

        engine.run(data, max_epochs=count)


class PoutyneEngine:
    """Poutyne's Model.fit_generator; it has no loop without a net."""

    @staticmethod
    def imported():
        import poutyne  # noqa: F401

    @staticmethod
    def training(net, optimizer, loss, data, handlers=0):
        from poutyne import Callback, Model

        class Nothing(Callback):
            def on_train_batch_end(self, batch_number, logs):
                pass

        model = Model(net, optimizer, loss)
        callbacks = [Nothing() for _ in range(handlers)]
        return lambda: model.fit_generator(
            data, epochs=1, verbose=False, callbacks=callbacks, steps_per_epoch=len(data)
        )

    @staticmethod
    def epochs(net, optimizer, loss, data, valid, count, over):
        from poutyne import Callback, Model

        class Report(Callback):
            def on_epoch_end(self, epoch_number, logs):
                over(logs["val_acc"] / 100)  # Poutyne has percentages

        model = Model(net, optimizer, loss, batch_metrics=["accuracy"])
        model.fit_generator(data, valid, epochs=count, verbose=False, callbacks=[Report()])


ENGINES = {
    "flambeau": FlambeauEngine, "torch": TorchEngine, "ignite": IgniteEngine,
    "poutyne": PoutyneEngine,
}


def named(what: str, handlers: int) -> str:
    return f"{what}, {f'{handlers} handlers' if handlers else 'none'}"


def empty_steps(engine) -> dict[str, float]:
    """What an engine adds to a `for` over numbers."""

    def step(engine, batch):
        return None

    def by_hand(data):
        def run():
            for batch in data:
                step(None, batch)

        return run

    makers = {
        named("engine", count): lambda data, count=count: engine.empty(step, data, count)
        for count in HANDLERS
    }
    return differences(makers, by_hand, list(range(EMPTY_STEPS)))


def small_steps(engine, torch, compile: bool) -> dict[str, float]:
    """What it adds to a training written by hand in the same library, compiled both or neither."""
    batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(SMALL_STEPS)]
    options = {"compile": True} if compile else {}

    def maker(who, handlers):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        loss = torch.nn.functional.mse_loss
        return lambda data: who.training(net, optimizer, loss, data, handlers, **options)

    what = "compiled" if compile else "trainer"
    makers = {named(what, count): maker(engine, count) for count in HANDLERS}
    return differences(makers, maker(TorchEngine, 0), batches)


def digits(engine, torch, epochs: int) -> dict[str, float]:
    """The training of examples/mnist.py: the first epoch, from the first call of the engine on,
    a later one, both with the test images at the end, and the accuracy on them."""
    sys.path.insert(0, str(HERE.parent / "examples"))
    import mnist
    from torch.utils.data import DataLoader

    torch.manual_seed(1)
    loader = DataLoader(mnist.dataset("train"), batch_size=BATCH, shuffle=True)
    valid = DataLoader(mnist.dataset("test"), batch_size=500)
    net = mnist.Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    times, accuracies = [time.perf_counter()], []

    def over(accuracy):
        times.append(time.perf_counter())
        accuracies.append(float(accuracy))

    engine.epochs(net, optimizer, torch.nn.functional.nll_loss, loader, valid, epochs, over)
    results = {"mnist, first epoch": times[1] - times[0], "mnist accuracy": accuracies[-1]}
    if epochs > 1:
        results["mnist, later epoch"] = (times[-1] - times[1]) / (epochs - 1)
        results["mnist, all epochs"] = times[-1] - times[0]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("epochs", type=int)
    parser.add_argument("--digits", action="store_true", help="that training alone")
    args = parser.parse_args()

    engine = ENGINES[args.engine]
    begin = time.perf_counter()
    if args.engine == "flambeau":
        sys.path.insert(0, str(HERE.parent))
        from flambeau.command import torch_alias

        torch_alias.install()  # so that the examples' `import torch` is flambeau here
    import torch

    engine.imported()
    results = {"import": time.perf_counter() - begin}
    torch.set_num_threads(THREADS)
    if not args.digits and hasattr(engine, "empty"):
        results |= empty_steps(engine)
    if not args.digits and engine is not TorchEngine:
        results |= small_steps(engine, torch, False)
        if args.engine == "flambeau":
            results |= small_steps(engine, torch, True)
    print(json.dumps(results | (digits(engine, torch, args.epochs) if args.epochs else {})))


if __name__ == "__main__":
    main()
