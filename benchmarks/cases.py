"""What is measured: each case is a function of `torch`, be it PyTorch or flambeau, that prepares
its data and returns the piece of work to be timed.

The networks are those of examples/, so `torch` must be what `import torch` gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Work = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A row: its title, how to prepare it, and how many times PyTorch's speed it should reach."""

    title: str
    prepare: Callable[[Any], Work]
    target: float | None


GROUPS: dict[str, dict[str, Case]] = {"small": {}, "large": {}, "steps": {}}
HEADINGS = {
    "small": "Small tensors",
    "large": "Large tensors, matrix products, convolution",
    "steps": "Training steps (forward, backward, optimizer)",
}


def case(group: str, title: str, target: float | None = None):
    """Registers the function below it under its own name."""

    def register(prepare: Callable[[Any], Work]) -> Callable[[Any], Work]:
        GROUPS[group][prepare.__name__] = Case(title, prepare, target)
        return prepare

    return register


def pair(torch: Any) -> tuple[Any, Any]:
    return torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([5.0, 6.0, 7.0, 8.0])


def square(torch: Any) -> Any:
    return torch.arange(16.0).view(4, 4)


# ---- small tensors: how much an operator costs before it does anything ----


@case("small", "`a + b`", 1.0)
def add(torch):
    a, b = pair(torch)
    return lambda: a + b


@case("small", "`a + b`, recorded", 1.0)
def add_recorded(torch):
    a, b = pair(torch)
    a.requires_grad_()
    return lambda: a + b


@case("small", "`a * 2.0`", 1.0)
def times_number(torch):
    a, _ = pair(torch)
    return lambda: a * 2.0


@case("small", "`m.t()`", 1.0)
def transpose(torch):
    m = square(torch)
    return lambda: m.t()


@case("small", "`m.view(16)`", 1.0)
def view(torch):
    m = square(torch)
    return lambda: m.view(16)


@case("small", "`m[0]`", 1.0)
def row(torch):
    m = square(torch)
    return lambda: m[0]


@case("small", "`m[1:, None]`", 1.0)
def slice_and_none(torch):
    m = square(torch)
    return lambda: m[1:, None]


@case("small", "`m[:, index]`", 1.0)
def index_tensor(torch):
    m, index = square(torch), torch.tensor([0, 2])
    return lambda: m[:, index]


@case("small", "`a.sum()`", 1.0)
def total(torch):
    a, _ = pair(torch)
    return lambda: a.sum()


@case("small", "`a.softmax(0)`", 1.0)
def softmax(torch):
    a, _ = pair(torch)
    return lambda: a.softmax(0)


@case("small", "`a.log_softmax(0)`", 1.0)
def log_softmax(torch):
    a, _ = pair(torch)
    return lambda: a.log_softmax(0)


@case("small", "`F.cross_entropy(m, t)`, 4 by 4", 1.0)
def cross_entropy(torch):
    m, t = square(torch), torch.tensor([0, 3, 1, 2])
    return lambda: torch.nn.functional.cross_entropy(m, t)


@case("small", "`F.gelu(a)`", 1.0)
def gelu(torch):
    a, _ = pair(torch)
    return lambda: torch.nn.functional.gelu(a)


@case("small", "`F.layer_norm(m, (4,))`", 1.0)
def layer_norm(torch):
    m = square(torch)
    return lambda: torch.nn.functional.layer_norm(m, (4,))


@case("small", "`m @ m`, 4 by 4", 1.0)
def small_matmul(torch):
    m = square(torch)
    return lambda: m @ m


@case("small", "`Linear(4, 4)(m)`", 1.0)
def linear(torch):
    m, layer = square(torch), torch.nn.Linear(4, 4)
    return lambda: layer(m)


@case("small", "call of an empty Module", 1.0)
def empty_module(torch):
    class Empty(torch.nn.Module):
        def forward(self, x):
            return x

    a, module = torch.ones(4), Empty()
    return lambda: module(a)


@case("small", "`s.item()`", 1.0)
def item(torch):
    s = torch.tensor(1.5)
    return lambda: s.item()


@case("small", "`torch.zeros(4)`", 1.0)
def zeros(torch):
    make = torch.zeros
    return lambda: make(4)


@case("small", "`(a*b).sum().backward()`", 1.7)
def backward(torch):
    a, b = pair(torch)
    a.requires_grad_()
    return lambda: (a * b).sum().backward()


# ---- large tensors: 4M elements, 2048 by 2048 ----


def pointwise(name: str, title: str, function: Callable[[Any, Any], Any]) -> None:
    def prepare(torch: Any) -> Work:
        torch.manual_seed(0)
        x = torch.randn(2048, 2048)
        return lambda: function(torch, x)

    prepare.__name__ = name
    case("large", title)(prepare)


pointwise("large_add", "`x + x`, 4M", lambda torch, x: x + x)
pointwise("large_exp", "`exp`, 4M", lambda torch, x: x.exp())
pointwise("large_tanh", "`tanh`, 4M", lambda torch, x: x.tanh())
pointwise("large_gelu", "`gelu`, 4M", lambda torch, x: torch.nn.functional.gelu(x))
pointwise("large_sum", "`sum`, 4M", lambda torch, x: x.sum())
pointwise("large_softmax", "`softmax(-1)`, 4M", lambda torch, x: x.softmax(-1))
pointwise(
    "large_layer_norm",
    "`layer_norm`, 4M",
    lambda torch, x: torch.nn.functional.layer_norm(x, (2048,)),
)
pointwise("large_transpose", "`t().contiguous()`, 4M", lambda torch, x: x.t().contiguous())


pointwise("large_var", "`var(-1)`, 4M", lambda torch, x: x.var(-1))
pointwise("large_norm", "`norm()`, 4M", lambda torch, x: x.norm())
pointwise("large_logsumexp", "`logsumexp(-1)`, 4M", lambda torch, x: x.logsumexp(-1))
pointwise("large_max", "`max(-1)`, 4M", lambda torch, x: x.max(-1))
pointwise("large_cumsum", "`cumsum(-1)`, 4M", lambda torch, x: x.cumsum(-1))
pointwise("large_clamp", "`clamp(-1, 1)`, 4M", lambda torch, x: x.clamp(-1, 1))
pointwise("large_where", "`where(x > 0, x, 0)`, 4M", lambda torch, x: torch.where(x > 0, x, 0.0))
pointwise("large_masked_fill", "`masked_fill`, 4M", lambda torch, x: x.masked_fill(x > 0, 0.0))
pointwise("large_double", "`double()`, 4M", lambda torch, x: x.double())
pointwise("large_bfloat16", "`bfloat16()`, 4M", lambda torch, x: x.bfloat16())
pointwise("large_cat", "`cat` of two, 4M each", lambda torch, x: torch.cat((x, x), 1))
pointwise("large_mse", "`mse_loss`, 4M", lambda torch, x: torch.nn.functional.mse_loss(x, x))
pointwise(
    "large_smooth_l1", "`smooth_l1_loss`, 4M",
    lambda torch, x: torch.nn.functional.smooth_l1_loss(x, x),
)
pointwise("large_dropout", "`dropout`, 4M", lambda torch, x: torch.nn.functional.dropout(x, 0.1))


pointwise("large_turned", "`x * x.t()`, 4M", lambda torch, x: x * x.t())
pointwise("large_lerp", "`lerp_`, 4M", lambda torch, x: x.lerp_(x, 0.1))


@case("large", "`gather`, 1M, forward and backward")
def large_gather(torch):
    torch.manual_seed(0)
    x, at = torch.randn(1024, 1024, requires_grad=True), torch.randint(1024, (1024, 1024))
    g = torch.randn(1024, 1024)
    return lambda: x.gather(1, at).backward(g)


@case("large", "`cross_entropy`, 4096 by 1024, forward and backward")
def large_cross_entropy(torch):
    torch.manual_seed(0)
    x, t = torch.randn(4096, 1024, requires_grad=True), torch.randint(1024, (4096,))
    return lambda: torch.nn.functional.cross_entropy(x, t).backward()


@case("large", "batch norm of 32 x 64 x 32 x 32, forward and backward")
def batch_norm(torch):
    torch.manual_seed(0)
    x, layer = torch.randn(32, 64, 32, 32, requires_grad=True), torch.nn.BatchNorm2d(64)
    g = torch.randn(32, 64, 32, 32)
    return lambda: layer(x).backward(g)


@case("large", "group norm of 32 x 64 x 32 x 32, forward and backward")
def group_norm(torch):
    torch.manual_seed(0)
    x, layer = torch.randn(32, 64, 32, 32, requires_grad=True), torch.nn.GroupNorm(8, 64)
    g = torch.randn(32, 64, 32, 32)
    return lambda: layer(x).backward(g)


@case("large", "embedding of 8192 rows of 256, forward and backward")
def embedding(torch):
    torch.manual_seed(0)
    layer, at = torch.nn.Embedding(10_000, 256), torch.randint(10_000, (8192,))
    g = torch.randn(8192, 256)
    return lambda: layer(at).backward(g)


@case("large", "`x[index]`, 8192 rows of 512")
def index_rows(torch):
    torch.manual_seed(0)
    x, at = torch.randn(8192, 512), torch.randint(8192, (8192,))
    return lambda: x[at]


@case("large", "Adam, 10M parameters")
def adam(torch):
    parameters = [torch.zeros(1000, 1000, requires_grad=True) for _ in range(10)]
    for p in parameters:
        p.grad = torch.ones(1000, 1000)
    return torch.optim.Adam(parameters).step


@case("large", "`clip_grad_norm_`, 10M parameters")
def clip(torch):
    parameters = [torch.zeros(1000, 1000, requires_grad=True) for _ in range(10)]
    for p in parameters:
        p.grad = torch.ones(1000, 1000)
    return lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)


@case("large", "GRU 128, batch 32, length 50, forward and backward")
def gru(torch):
    torch.manual_seed(0)
    layer, x = torch.nn.GRU(128, 128, batch_first=True), torch.randn(32, 50, 128)
    return lambda: layer(x)[0].sum().backward()


@case("large", "`(x*y+x).sigmoid()*y`, 4M")
def large_chain(torch):
    torch.manual_seed(0)
    x, y = torch.randn(2048, 2048), torch.randn(2048, 2048)
    return lambda: (x * y + x).sigmoid() * y


def product(size: int) -> None:
    def prepare(torch: Any) -> Work:
        torch.manual_seed(0)
        a, b = torch.randn(size, size), torch.randn(size, size)
        return lambda: a @ b

    prepare.__name__ = f"matmul_{size}"
    case("large", f"matmul {size}")(prepare)


for size in (512, 1024, 2048):
    product(size)


@case("large", "matmul 1024, bfloat16")
def half_product(torch):
    torch.manual_seed(0)
    a, b = (torch.randn(1024, 1024).bfloat16() for _ in range(2))
    return lambda: a @ b


@case("large", "conv 3x3, 64 to 64, 32x32, batch 32")
def convolution(torch):
    torch.manual_seed(0)
    x, layer = torch.randn(32, 64, 32, 32), torch.nn.Conv2d(64, 64, 3, padding=1)

    def work():
        with torch.no_grad():
            return layer(x)

    return work


@case("large", "the same conv, forward and backward")
def convolution_backward(torch):
    torch.manual_seed(0)
    x, layer = torch.randn(32, 64, 32, 32), torch.nn.Conv2d(64, 64, 3, padding=1)
    x.requires_grad_()
    return lambda: layer(x).sum().backward()


# ---- training steps ----


def step(torch: Any, model: Any, optimizer: Any, loss_of: Callable[[], Any]) -> Work:
    """zero_grad, forward, backward, step."""
    model.train()

    def work() -> None:
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()

    return work


def perceptron(torch: Any, widths: tuple[int, ...], batch: int) -> Work:
    torch.manual_seed(0)
    nn = torch.nn
    layers: list[Any] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    x, y = torch.randn(batch, widths[0]), torch.randint(widths[-1], (batch,))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return step(torch, model, optimizer, lambda: nn.functional.cross_entropy(model(x), y))


@case("steps", "MLP 4-64-64-2, batch 32, Adam", 1.0)
def tiny_mlp(torch):
    return perceptron(torch, (4, 64, 64, 2), 32)


@case("steps", "MLP 784-256-128-10, batch 64, Adam", 1.0)
def mlp(torch):
    return perceptron(torch, (784, 256, 128, 10), 64)


@case("steps", "CNN of mnist.py, 28x28, batch 64, Adam")
def cnn(torch):
    from mnist import Net

    torch.manual_seed(0)
    model = Net("relu")
    x, y = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return step(torch, model, optimizer, lambda: torch.nn.functional.nll_loss(model(x), y))


@case("steps", "ResNet-18, 32x32, batch 32, SGD")
def resnet(torch):
    from resnet import ResNet18

    torch.manual_seed(0)
    model = ResNet18()
    x, y = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return step(torch, model, optimizer, lambda: torch.nn.functional.cross_entropy(model(x), y))


@case("steps", "char GPT, 4 layers, 128 wide, batch 12x64, AdamW")
def char_gpt(torch):
    from char_gpt import GPT, nats

    torch.manual_seed(0)
    model = GPT(letters=65, context=64, layers=4, width=128, heads=4)
    x, y = torch.randint(65, (12, 64)), torch.randint(65, (12, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return step(torch, model, optimizer, lambda: nats(model, x, y))


@case("steps", "LSTM 128, batch 32, length 50, RMSprop")
def lstm(torch):
    from lstm import Writer

    torch.manual_seed(0)
    model = Writer(letters=65, width=128)
    x, y = torch.randint(65, (32, 50)), torch.randint(65, (32, 50))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def loss():
        return torch.nn.functional.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())

    return step(torch, model, optimizer, loss)


def train_layers(torch: Any, layers: list[Any], x: Any) -> Work:
    """A training step of layers followed by global pooling and a classifier of ten classes."""
    nn = torch.nn
    axes = tuple(range(2, x.dim()))
    model = nn.ModuleList([nn.Sequential(*layers), nn.LazyLinear(10)])
    model[1](model[0](x).mean(axes))  # the first call creates the lazy layer's parameters
    y = torch.randint(10, (len(x),))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return step(torch, model, optimizer,
                lambda: nn.functional.cross_entropy(model[1](model[0](x).mean(axes)), y))


@case("steps", "depthwise blocks, 64 to 384 channels, 16x16 to 2x2, batch 4, SGD")
def depthwise_blocks(torch):
    torch.manual_seed(0)
    nn, layers, width = torch.nn, [], 64
    for kernel, stride, channels in ((3, 1, 96), (5, 2, 192), (5, 2, 384), (5, 2, 384)):
        layers += [nn.Conv2d(width, channels, 1, bias=False), nn.BatchNorm2d(channels),
                   nn.Hardswish(),
                   nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels),
                   nn.BatchNorm2d(channels), nn.Hardswish()]
        width = channels
    return train_layers(torch, layers, torch.randn(4, 64, 16, 16))


@case("steps", "conv3d, 1 to 32 channels, 16x32x32, batch 4, SGD")
def volumes(torch):
    torch.manual_seed(0)
    nn = torch.nn
    layers = [nn.Conv3d(1, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d(2),
              nn.Conv3d(16, 32, 3, padding=1), nn.ReLU()]
    return train_layers(torch, layers, torch.randn(4, 1, 16, 32, 32))
