"""The six models of the compiler's benchmark, as functions of `torch`, be it PyTorch or flambeau.

Each gives a module and its loss of a batch (x, y); jax_models.py has the same six.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LETTERS = 65


@dataclass(frozen=True)
class Model:
    """`make(torch)` gives (module, loss of module, x, y); `data(torch, batch)` gives (x, y).

    `aim`: the least by which compiled flambeau should be faster than the best of the others.
    """

    title: str
    batch: int
    make: Callable[[Any], tuple[Any, Callable]]
    data: Callable[[Any, int], tuple[Any, Any]]
    aim: float


def cross_entropy(torch: Any) -> Callable:
    return lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y)


def perceptron(*widths: int) -> Callable[[Any], tuple[Any, Callable]]:
    def make(torch: Any) -> tuple[Any, Callable]:
        layers: list[Any] = []
        for inputs, outputs in itertools.pairwise(widths):
            layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1]), cross_entropy(torch)

    return make


def cnn(torch: Any) -> tuple[Any, Callable]:
    from mnist import Net

    return Net("relu"), lambda model, x, y: torch.nn.functional.nll_loss(model(x), y)


def resnet(torch: Any) -> tuple[Any, Callable]:
    from resnet import ResNet18

    return ResNet18(), cross_entropy(torch)


def gpt(layers: int, width: int) -> Callable[[Any], tuple[Any, Callable]]:
    def make(torch: Any) -> tuple[Any, Callable]:
        from char_gpt import GPT, nats

        return GPT(letters=LETTERS, context=64, layers=layers, width=width, heads=4), nats

    return make


def lstm(torch: Any) -> tuple[Any, Callable]:
    from lstm import Writer

    def loss(model: Any, x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())

    return Writer(letters=LETTERS, width=128), loss


def vectors(size: int, classes: int) -> Callable[[Any, int], tuple[Any, Any]]:
    return lambda torch, batch: (torch.randn(batch, size), torch.randint(classes, (batch,)))


def images(channels: int, size: int) -> Callable[[Any, int], tuple[Any, Any]]:
    return lambda torch, batch: (torch.randn(batch, channels, size, size),
                                 torch.randint(10, (batch,)))


def letters(length: int) -> Callable[[Any, int], tuple[Any, Any]]:
    return lambda torch, batch: (torch.randint(LETTERS, (batch, length)),
                                 torch.randint(LETTERS, (batch, length)))


MODELS = {
    "tiny_mlp": Model("MLP 4-64-64-2, batch 32", 32, perceptron(4, 64, 64, 2), vectors(4, 2), 2.0),
    "mlp": Model("MLP 784-256-128-10, batch 64", 64, perceptron(784, 256, 128, 10),
                 vectors(784, 10), 1.3),
    "cnn": Model("CNN of mnist.py, 28x28, batch 64", 64, cnn, images(1, 28), 2.7),
    "resnet": Model("ResNet-18, 32x32, batch 32", 32, resnet, images(3, 32), 1.25),
    "char_gpt": Model("char GPT, 4 layers, 128 wide, batch 12x64", 12, gpt(4, 128), letters(64),
                      2.5),
    "lstm": Model("LSTM 128, batch 32, length 50", 32, lstm, letters(50), 1.7),
}


def growing(layers: int, width: int) -> Model:
    """A char GPT of another size."""
    title = f"{layers} layers, {width} wide"
    return Model(title, 12, gpt(layers, width), letters(64), 1.0)
