"""A generator of random numbers that each worker process gets a copy of."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ....tensor.random.generator import Generator
from ...finding import Level
from ...places import Spot
from ..rule import Rule

_KINDS = (np.random.Generator, np.random.RandomState, random.Random, Generator)


class GeneratorInWorkers(Rule):
    """Looks for generators among the attributes of a dataset that is loaded by processes."""

    id = "generator-in-workers"
    level = Level.LIKELY
    needs = ("on_loader",)
    title = (
        "a data set's own generator is copied into every worker, so all workers draw the same "
        "numbers"
    )
    why = (
        "Every process starts from the same generator state, so samples of different workers get "
        "the same noise and every epoch repeats it. Reported for num_workers >= 2 without "
        "worker_init_fn if __getitem__ uses an attribute that is a generator. Not reported if "
        "only the constructor uses it."
    )
    fix = "a worker_init_fn that seeds dataset.rng with worker_info.seed, or torch's own generator"
    broken = """
import numpy as np

class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return x[i] + float(self.rng.normal()), y[i]

loader = DataLoader(Noisy(), batch_size=16, num_workers=2)  # <-
"""
    fixed = """
import numpy as np

def seed(worker):
    info = torch.utils.data.get_worker_info()
    info.dataset.rng = np.random.default_rng(info.seed)

class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return x[i] + float(self.rng.normal()), y[i]

loader = DataLoader(Noisy(), batch_size=16, num_workers=2, worker_init_fn=seed)
"""
    healthy = ("""
# The generator drew the data, once.
import numpy as np

class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.noise = torch.from_numpy(self.rng.normal(size=(64, 8)).astype("float32"))

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return x[i] + self.noise[i], y[i]

loader = DataLoader(Noisy(), batch_size=16, num_workers=2)
""", """
# One process.
import numpy as np

class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return x[i] + float(self.rng.normal()), y[i]

loader = DataLoader(Noisy(), batch_size=16)
""")

    def on_loader(self, loader: Any, spot: Spot | None) -> None:
        workers = getattr(loader, "num_workers", 0)
        if workers < 2 or getattr(loader, "worker_init_fn", None) is not None:
            return
        dataset = loader.dataset
        while type(dataset).__module__.startswith("flambeau.") and hasattr(dataset, "dataset"):
            dataset = dataset.dataset
        code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
        if code is None:
            return
        for name, value in list(getattr(dataset, "__dict__", {}).items()):
            if isinstance(value, _KINDS) and name in code.co_names:
                self.report(f"{workers} workers start from copies of the dataset's `{name}`", spot,
                            workers=workers)
