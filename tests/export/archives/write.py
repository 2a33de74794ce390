"""Writes `.pt2` files with PyTorch: `python write.py FOLDER`. What they give is an extra file."""

import copy
import json
import sys
import zipfile
from pathlib import Path

import torch
from torch import nn
from torch._higher_order_ops.map import map as map_slices
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolved, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.last, self.shift = nn.Linear(2, 3), torch.ones(3)

    def forward(self, x):
        y = torch.relu(self.norm(self.convolved(x)))
        a, b = self.last(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1)).split([1, 2], 1)
        y = torch.cat([b, a], 1).softmax(-1) * 2.0 + self.shift
        return {"y": y.to(torch.float64).view(x.shape[0], -1), "rows": y.sum(1)}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.cells = nn.Embedding(5, 4), nn.LSTM(4, 3, batch_first=True)

    def forward(self, x):
        return {"y": self.cells(self.rows(x))[0][:, -1]}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)

    def forward(self, x):
        return {"y": self.layers(x)}


class Loops(nn.Module):
    """All control flow: the branch and the number of rounds depend on the input."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        a, b = torch.cond(x.sum() > 0, lambda x: (self.linear(x).sin(), x + 1),
                          lambda x: (x.cos(), x - 1), (x,))
        rounds, c = while_loop(lambda i, c: (i < 5) & (c.abs().sum() < 100),
                               lambda i, c: (i + 1, c * 2), (torch.zeros((), dtype=torch.int64), b))
        d = map_slices(lambda row, shift: row.sin() + shift, c, self.linear.bias)
        last, e = scan(lambda total, row: (total + row, (total * row).clone()), torch.zeros(3), d)
        return {"y": torch.cat([a, e, (last * rounds)[None]])}


CASES = {
    "small": (Small().eval(), torch.randn(2, 1, 5, 5), True),
    "small_training": (Small(), torch.randn(2, 1, 5, 5), False),
    "recurrent": (Recurrent(), torch.randint(0, 5, (2, 3)), False),
    "loops": (Loops(), torch.randn(4, 3), False),
    "encoder": (Encoder().eval(), torch.randn(2, 3, 8), True),
}


def main(folder, names):
    for name in names:
        model, x, dynamic = CASES[name]
        y = copy.deepcopy(model)(x)["y"]
        with torch.no_grad():
            program = torch.export.export(
                model, (x,), dynamic_shapes=({0: Dim("batch")},) if dynamic else None)
        expected = {"input": x.tolist(), "output": y.tolist()}
        path = f"{folder}/{name}.pt2"
        torch.export.save(program, path, extra_files={"expected": json.dumps(expected)})
        compress(path)


def compress(path):
    """The same records, deflated: half of the file is the program's text."""
    with zipfile.ZipFile(path) as archive:
        records = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in records:
            archive.writestr(name, data)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    main(sys.argv[1], sys.argv[2:] or list(CASES))
