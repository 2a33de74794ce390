"""Modules and functions as users script them."""

from __future__ import annotations

import math
from typing import Dict, List, Optional, Tuple  # noqa: UP035  # as programs write them

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)
        self.scale, self.dropout = 0.5, None

    def forward(self, x):
        if self.dropout is not None:
            x = self.dropout(x)
        return self.second(F.relu(self.first(x))) * self.scale


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.MaxPool2d(2), nn.Dropout(0.0), nn.Flatten(), nn.Linear(64, 5))

    def forward(self, x):
        return F.log_softmax(self.net(x), dim=1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.cells = nn.Embedding(7, 5), nn.LSTM(5, 6, 2, batch_first=True)

    def forward(self, x, state: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):  # noqa: UP006, UP045
        y, state = self.cells(self.rows(x), state)
        return y, state


def bounded(x, low: float, high: float = 1.0):
    """A documented function."""
    return torch.clamp(x, min=low, max=high)


class ControlFlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit, self.calls = 3, 0
        self.weight = nn.Parameter(torch.ones(2, 2))
        self.register_buffer("count", torch.zeros(()))
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 1)})

    def scaled(self, x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    @torch.jit.export
    def above(self, values: Dict[str, int], bound: int) -> List[str]:  # noqa: UP006
        result: List[str] = []  # noqa: UP006
        for key, value in values.items():
            if value > bound:
                result.append("{}-{}".format(key, value))  # noqa: UP032
        return result

    @torch.jit.ignore
    def shown(self, x):
        return x

    def forward(self, x):
        i = 0
        while bool(x.sum() < 100) and i < self.limit:
            x = x @ self.weight + x
            i += 1
        for j in range(x.shape[0]):
            if j % 2 == 0:
                x[j] = x[j] * 2
        for number, layer in enumerate(self.layers):
            x = self.scaled(layer(x), 1.0 + number)
        self.count += 1
        self.calls = self.calls + 1
        if x.dim() > 5:
            raise ValueError(f"deep {x.dim()}")
        results: List[torch.Tensor] = []  # noqa: UP006
        for part in [x, x[:, 0:1]]:
            results.append(bounded(part, 0.0, high=1e6))
        for _, head in self.heads.items():
            results.append(head(x))
        zeros = x.new_zeros(x.size(0), 1).to(torch.float32) + math.pi
        if torch.jit.is_scripting():
            zeros = zeros + 0
        else:
            zeros = self.shown(zeros)
        last = x if self.training else x * 2
        return torch.cat([y.clamp(min=0.0) for y in results] + [zeros, last], 1), i


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolved, self.norm = nn.Conv2d(3, 3, 3, 1, 1), nn.BatchNorm2d(3)
        self.pool, self.cells = nn.AdaptiveAvgPool2d((1, 1)), nn.GRU(3, 4, bidirectional=True)
        self.loss, self.activation = nn.CrossEntropyLoss(label_smoothing=0.1), F.gelu

    def forward(self, x):
        y = F.relu(self.norm(self.convolved(x))) + x
        y = self.activation(torch.flatten(self.pool(y), 1))
        z, _ = self.cells(y.unsqueeze(0))
        z = F.max_pool1d(F.dropout(z, p=0.0, training=self.training), 2)
        wide = F.interpolate(z.unsqueeze(0), scale_factor=2, mode="nearest")
        return wide + self.loss(y, torch.zeros(y.size(0), dtype=torch.long))


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


class Parametric(nn.Module):
    """Loops over parameters, which are unrolled as those over modules are."""

    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList([*torch.arange(1.0, 4.0)[:, None] / 4])
        self.shifts = nn.ParameterDict({"a": torch.tensor([0.5]), "b": torch.tensor([0.7])})
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])

    def forward(self, x):
        for i, scale in enumerate(self.scales):
            x = x * scale.abs() + i * scale.sum()
        for layer, scale in zip(self.layers, self.scales):  # noqa: B905  # as programs write it
            x = layer(x) * scale
        for _, shift in self.shifts.items():
            x = x + shift
        return x + self.scales[-1] * self.shifts["b"]


CASES = {
    "parametric": (Parametric, lambda: torch.randn(3, 2)),
    "perceptron": (Perceptron, lambda: torch.randn(2, 4)),
    "convolutional": (Convolutional, lambda: torch.randn(2, 3, 8, 8)),
    "recurrent": (Recurrent, lambda: torch.randint(0, 7, (2, 5))),
    "control_flow": (ControlFlow, lambda: torch.ones(3, 2)),
    "mixed": (Mixed, lambda: torch.randn(2, 3, 8, 8)),
    "encoder": (encoder, lambda: torch.randn(2, 3, 8)),
}


@torch.jit.script
def doubled(x, times: int = 2):
    for _ in range(times):
        x = bounded(x * 2, -100.0, 100.0)
    return x


class Reversed(nn.ModuleList):
    def __iter__(self):
        return reversed(list(super().__iter__()))


class LoopsOverAClassOfItsOwn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = Reversed([nn.Linear(2, 2), nn.ReLU()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class CallsIgnored(nn.Module):
    @torch.jit.ignore
    def shown(self, x):
        return x

    def forward(self, x):
        return self.shown(x)


class ReadsAnObject(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings = object()

    def forward(self, x):
        return x if self.settings.wide else -x


class SetsAProperty(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = 5

    @property
    def limit(self):
        return self.a

    @limit.setter
    def limit(self, value):
        self.a = max(value, 0)

    def forward(self, x, limit: int):
        self.limit = limit
        return x * self.limit


class ReadsAPropertyOfWhatItSets(SetsAProperty):
    def forward(self, x, limit: int):
        self.a = limit
        return x * self.limit


REFUSED = {"stays Python": CallsIgnored,
           "the property limit": SetsAProperty,
           "the property limit, whose": ReadsAPropertyOfWhatItSets,
           "a loop over a Reversed": LoopsOverAClassOfItsOwn,
           "type object from outside": ReadsAnObject}
