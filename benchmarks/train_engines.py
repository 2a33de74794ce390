"""One fresh process of train.py: what one engine's steps cost, and its MNIST training.

    python train_engines.py {flambeau,torch,ignite,poutyne} STEPS

Prints a line of JSON: seconds by row. "torch" is the loop written by hand.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
THREADS = 2
REPEATS = 7
EMPTY_STEPS = 20_000
SMALL_STEPS = 1_000
BATCH = 64


def seconds(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def difference(work, bare, steps: int) -> float:
    """Seconds a step that `work` takes more than `bare`: the median of runs in turn."""
    work(), bare()
    return statistics.median(seconds(work) - seconds(bare) for _ in range(REPEATS)) / steps


class FlambeauEngine:
    """flambeau.train."""

    @staticmethod
    def empty(step, data, handlers):
        from flambeau.train import Loop
        from flambeau.train import step as stage

        loop = Loop(step)
        for _ in range(handlers):
            loop.attach(stage.end, lambda run: None)
        return lambda: loop.run(data)

    @staticmethod
    def training(net, optimizer, loss, data, handlers=0):
        from flambeau.train import Trainer
        from flambeau.train import step as stage

        trainer = Trainer(net, optimizer, loss)
        for _ in range(handlers):
            trainer.attach(stage.end, lambda run: None)
        return lambda: trainer.fit(data)


class TorchEngine:
    """No engine: the loop that is written by hand."""

    @staticmethod
    def training(net, optimizer, loss, data, handlers=0):
        def run():
            for x, y in data:
                optimizer.zero_grad()
                value = loss(net(x), y)
                value.backward()
                optimizer.step()

        return run


class IgniteEngine:
    """ignite's Engine and its supervised trainer."""

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


class PoutyneEngine:
    """Poutyne's Model.fit_generator; it has no loop without a net."""

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


ENGINES = {
    "flambeau": FlambeauEngine, "torch": TorchEngine, "ignite": IgniteEngine,
    "poutyne": PoutyneEngine,
}  # fmt: skip


def empty_steps(engine) -> dict[str, float]:
    """What an engine adds to a `for` over numbers."""
    data = list(range(EMPTY_STEPS))

    def step(engine, batch):
        return None

    def bare():
        for batch in data:
            step(None, batch)

    return {
        f"engine, {'no handler' if not count else f'{count} handlers'}": difference(
            engine.empty(step, data, count), bare, EMPTY_STEPS
        )
        for count in (0, 5)
    }


def small_steps(engine, torch) -> dict[str, float]:
    """What it adds to a training written by hand in the same library."""
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loss = torch.nn.functional.mse_loss
    data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(SMALL_STEPS)]
    bare = TorchEngine.training(net, optimizer, loss, data)
    return {
        f"trainer, {'no handler' if not count else f'{count} handlers'}": difference(
            engine.training(net, optimizer, loss, data, count), bare, SMALL_STEPS
        )
        for count in (0, 5)
    }


def digits(engine, torch, steps: int) -> dict[str, float]:
    """The training of examples/mnist.py for some steps, and its accuracy on the test images."""
    sys.path.insert(0, str(HERE.parent / "examples"))
    import mnist
    from torch.utils.data import DataLoader

    torch.manual_seed(1)
    loader = DataLoader(mnist.dataset("train"), batch_size=BATCH, shuffle=True)
    batches = loader if steps >= len(loader) else list(itertools.islice(loader, steps))
    net = mnist.Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    work = engine.training(net, optimizer, torch.nn.functional.nll_loss, batches)
    begin = time.perf_counter()
    net.train()
    work()
    _, accuracy = mnist.test(net, DataLoader(mnist.dataset("test"), batch_size=500))
    return {"mnist": time.perf_counter() - begin, "mnist accuracy": accuracy}


def main() -> None:
    name, steps = sys.argv[1], int(sys.argv[2])
    engine = ENGINES[name]
    if name == "flambeau":
        sys.path.insert(0, str(HERE.parent))
        from flambeau import torch_alias

        torch_alias.install()  # so that the examples' `import torch` is flambeau here
    import torch

    torch.set_num_threads(THREADS)
    found = {}
    if hasattr(engine, "empty"):
        found |= empty_steps(engine)
    if engine is not TorchEngine:
        found |= small_steps(engine, torch)
    print(json.dumps(found | digits(engine, torch, steps)))


if __name__ == "__main__":
    main()
