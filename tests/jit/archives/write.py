"""Writes the archives of this folder with PyTorch: `python write.py FOLDER [all]`.

Each holds, as an extra file, what it was called with, what it gave, and the gradients of the sum
of its squares. `all` adds models whose archives are not kept here.
"""

# ruff: noqa: PLC0206, UP006, UP031, UP032, UP045, SIM118 - what TorchScript reads

import copy
import io
import sys
import typing
from enum import Enum
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)
        self.scale = 0.5

    def forward(self, x):
        return self.second(F.relu(self.first(x))) * self.scale


class ControlFlow(nn.Module):
    limit: torch.jit.Final[int]

    def __init__(self):
        super().__init__()
        self.limit = 3
        self.weight = nn.Parameter(torch.ones(2, 2))
        self.register_buffer("count", torch.zeros(()))
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])

    @torch.jit.export
    def above(self, values: typing.Dict[str, int], bound: int) -> typing.List[str]:
        result: typing.List[str] = []
        for key in values.keys():
            if values[key] > bound:
                result.append("{}-{}".format(key, values[key]))
        return result

    def forward(self, x):
        i = 0
        while bool(x.sum() < 100) and i < self.limit:
            x = x @ self.weight + x
            i += 1
        for j in range(x.shape[0]):
            if j % 2 == 0:
                x[j] = x[j] * 2
        for layer in self.layers:
            x = layer(x)
        self.count += 1
        if x.dim() > 5:
            raise ValueError("deep")
        parts = [x, x[:, 0:1]]
        return torch.cat([part.clamp(min=0.0) for part in parts], 1), i


class Pair(typing.NamedTuple):
    values: torch.Tensor
    number: int


class Color(Enum):
    RED = 1
    BLUE = 2


@torch.jit.script
class Total:
    def __init__(self, factor: int):
        self.factor = factor
        self.parts: typing.List[torch.Tensor] = []

    def add(self, x: torch.Tensor) -> None:
        self.parts.append(x * self.factor)

    def sum(self) -> torch.Tensor:
        return torch.stack(self.parts).sum(0)


class Classes(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.color = Color.BLUE
        self.table: typing.Dict[str, int] = {"a": 1}
        self.more = nn.ModuleDict({"x": nn.Linear(3, 3)})
        self.constant = torch.ones(3) * 2

    def moved(self, pair: Pair, factor: float = 2.0) -> Pair:
        return Pair(pair.values * factor + self.weight, pair.number + 1)

    def forward(self, x):
        total = Total(2)
        total.add(x)
        total.add(self.weight)
        pair = self.moved(Pair(total.sum(), 1))
        with torch.no_grad():
            mean = x.mean()
        y = torch.tanh(pair.values) + mean
        if self.color == Color.BLUE:
            y = y + 1
        named = {"y": y, "x": x}
        for _, layer in self.more.items():
            named["x"] = layer(named["x"])
        y = y * len(named) + named["x"]
        assert pair.number > 0, "number"
        text = "%d %s" % (pair.number, "z")
        selected = y[torch.tensor([0, 2])].sum() + y[y > 0].sum() + x.unsqueeze(0)[..., :2].sum()
        kinds = torch.zeros_like(y, dtype=torch.float64).to(y.dtype) + torch.arange(3).float()
        return kinds + y + selected + sorted([3, 1, 2])[0] + self.constant + self.table["a"], text


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.cells = nn.Embedding(5, 2), nn.LSTM(2, 3, batch_first=True)

    def forward(
        self, x, state: typing.Optional[typing.Tuple[torch.Tensor, torch.Tensor]] = None
    ):
        return self.cells(self.rows(x), state)


class Block(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.convolved = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out),
            nn.ReLU(inplace=True))
        self.shortcut = nn.Conv2d(width, out, 1, stride) if stride != 1 else None

    def forward(self, x):
        y = self.convolved(x)
        if self.shortcut is not None:
            x = self.shortcut(x)
        y = y + x
        return F.relu(y)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU6(),
                                  nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 8, 2))
        self.pool, self.last = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(8, 5)

    def forward(self, x):
        return self.last(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish(inplace=True),
            nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.GroupNorm(2, 8), nn.SiLU(), nn.Dropout2d(0.0))
        self.gate, self.last = nn.Conv2d(8, 8, 1), nn.Linear(8, 3)
        self.wide = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)

    def forward(self, x):
        y = self.wide(self.stem(x))
        gate = F.hardsigmoid(self.gate(F.adaptive_avg_pool2d(y, 1)))
        return self.last((y * gate).mean([2, 3]))


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.norm = nn.EmbeddingBag(5, 3, mode="mean"), nn.LayerNorm(3)
        self.cells, self.heads = nn.GRU(3, 4, bidirectional=True), nn.MultiheadAttention(8, 2)
        self.cell, self.slope = nn.LSTMCell(8, 3), nn.PReLU()
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.logits = nn.BCEWithLogitsLoss()

    def forward(self, x):
        y, _ = self.cells(self.norm(self.bag(x)).unsqueeze(0))
        y, _ = self.heads(y, y, y)
        y, c = self.cell(self.slope(y[0]))
        y = F.softmax(y, dim=-1) + F.gelu(c) + F.elu(c) + F.normalize(y, dim=1)
        loss = self.loss(y, torch.zeros(y.size(0), dtype=torch.long))
        loss = loss + F.smooth_l1_loss(y, c) + self.logits(y, torch.ones_like(y))
        means = F.avg_pool1d(F.pad(y, [1, 1]).unsqueeze(0), 2)
        return y * loss + means[0, :, :2].sum() + F.interpolate(y[None, None], size=[4, 4]).mean()


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


STORED = {"mlp": Mlp, "control_flow": ControlFlow, "classes": Classes, "recurrent": Recurrent}
MORE = {"residual": Residual, "mobile": Mobile, "losses": Losses, "encoder": encoder}
INPUTS = {
    "mlp": lambda: torch.randn(2, 4), "control_flow": lambda: torch.ones(3, 2),
    "classes": lambda: torch.randn(3), "recurrent": lambda: torch.randint(0, 5, (2, 3)),
    "residual": lambda: torch.randn(2, 3, 32, 32), "mobile": lambda: torch.randn(2, 3, 16, 16),
    "losses": lambda: torch.randint(0, 5, (2, 4)), "encoder": lambda: torch.randn(2, 3, 8),
}


def first(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def in_bytes(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def write(model, x, path):
    """The archive, with what real PyTorch computes by it beside."""
    again = torch.jit.load(io.BytesIO(model.save_to_buffer()))
    y = first(again(x.clone()))
    gradients = {}
    if y.requires_grad:
        (y * y).sum().backward()
        gradients = {name: p.grad for name, p in again.named_parameters()}
    torch.jit.save(model, path, _extra_files={
        "expected": in_bytes({"input": x, "output": y.detach(), "gradients": gradients})})


def main(folder, everything=False):
    torch.manual_seed(0)
    for name, model in {**STORED, **(MORE if everything else {})}.items():
        module, x = model(), INPUTS[name]()
        write(torch.jit.script(module), x, f"{folder}/{name}.pt")
        if name == "mlp" or (everything and name not in ("control_flow", "classes")):
            traced = torch.jit.trace(copy.deepcopy(module), x, check_trace=False)
            write(traced, x, f"{folder}/{name}_traced.pt")
        if everything:
            write(torch.jit.freeze(torch.jit.script(module.eval())), x,
                  f"{folder}/{name}_frozen.pt")


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    main(sys.argv[1], sys.argv[2:] == ["all"])
