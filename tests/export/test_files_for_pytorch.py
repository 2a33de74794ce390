"""torch.export.save: files that both libraries read, with the same results."""

from __future__ import annotations

import copy
import io
import subprocess
import sys

import pytest

import flambeau as torch
import flambeau._higher_order_ops as control_flow
from flambeau import nn
from flambeau.export import Dim
from flambeau.nn import functional as F
from flambeau.ops.registration.aten_schemas import _read_lines, find_overload, get_schemas
from flambeau.utils import _pytree as pytree

READ = """
import sys, torch
tree = torch.utils._pytree
for path in sys.argv[1:]:
    extra = {"note": ""}
    program = torch.export.load(path + ".pt2", extra_files=extra)
    assert extra["note"] == "text", extra
    for args, kwargs, expected in torch.load(path + ".calls"):
        results = tree.tree_leaves(program.module()(*args, **kwargs))
        torch.testing.assert_close(results, expected, equal_nan=True)
    print(path)
"""


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolved, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.last, self.shift = nn.Linear(2, 3), torch.ones(3)

    def forward(self, x):
        y = torch.relu(self.norm(self.convolved(x)))
        a, b = self.last(F.adaptive_avg_pool2d(y, 1).flatten(1)).split([1, 2], 1)
        y = torch.cat([b, a], 1).softmax(-1) * 2.0 + self.shift
        return {"y": y.to(torch.float64).view(x.shape[0], -1), "rows": y.sum(1)}


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.rows = nn.Embedding(5, 4)
        self.cells = getattr(nn, kind)(4, 3, batch_first=True, **options)

    def forward(self, x):
        return self.cells(self.rows(x))[0][:, -1]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)

    def forward(self, x, memory, *, scale=2.0):
        return self.layer(x, memory) * scale


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.full((3, 3), 0.25)), function

    def forward(self, x):
        return self.function(self, x)


def many_operators(self, x):
    y = x[:, 1:] * x[..., None].sum(-1)[:, :2] + torch.arange(2)
    y = torch.where(x[:, :2] > 0, y, torch.zeros(2)).transpose(0, 1).reshape(-1).clamp(-1, 1)
    return (y, x.max(1)[0], x.argmax(-1), x[torch.tensor([1, 0])], x @ self.weight, x.mean(),
            x.std(0), x.pow(2), x // 2, x % 2, 1 / x, x.masked_fill(x > 0, -float("inf")),
            F.pad(x, (1, 1)), x.expand(4, 2, 3), torch.stack([x, x]), x.chunk(3, 1), x.unbind(0),
            x.to(torch.bfloat16), x.long(), x.cumsum(0), F.softplus(x), ~(x > 0),
            x.sign(),
            x.gather(1, torch.tensor([[0], [1]])), x.logsumexp(1), F.gelu(x), x.permute(1, 0))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.MaxPool2d(2), nn.Dropout(0.5), nn.Conv2d(8, 8, 3, groups=2, stride=2), nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 5))


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


def while_rows(self, x):
    return torch.while_loop(lambda n, y: n < x.shape[0], lambda n, y: (n + 1, y + x[0] * n),
                            (0, x * 1))[1]


def while_tensors(self, x):
    return torch.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x @ self.weight + i),
                            (torch.tensor(0), x))


def with_gradients(self, x):
    with torch.enable_grad():
        y = x @ self.weight
    return y + 1


def checked(self, x):
    torch._check(x[0, 0].long().item() >= 0)
    return x * 2


BATCH, MATRIX = Dim("batch"), torch.linspace(0.5, 2, 6).reshape(2, 3)
CASES = {  # module, keyword arguments, dynamic shapes, and arguments of some calls
    "small": (lambda: Small().eval(), {}, ({0: BATCH},),
              [(torch.rand(n, 1, 5, 5),) for n in (2, 4)]),
    "training": (Small, {}, None, [(torch.rand(2, 1, 5, 5),)]),
    "linear": (lambda: nn.Linear(3, 2), {}, None, [(MATRIX,)]),
    "cnn": (lambda: convolutional().eval(), {}, ({0: Dim("batch", max=64)},),
            [(torch.rand(n, 3, 16, 16),) for n in (2, 3)]),
    "lstm": (lambda: Recurrent("LSTM", num_layers=2, bidirectional=True), {}, None,
             [(torch.tensor([[0, 1, 4], [2, 3, 0]]),)]),
    "gru": (lambda: Recurrent("GRU"), {}, None, [(torch.tensor([[0, 1, 4], [2, 3, 0]]),)]),
    "encoder": (lambda: encoder().eval(), {}, ({0: BATCH, 1: Dim("time")},),
                [(torch.rand(2, 3, 8),), (torch.rand(4, 6, 8),)]),
    "decoder": (lambda: Scaled().eval(), {"scale": 3.0}, None,
                [(torch.rand(2, 3, 8), torch.rand(2, 4, 8))]),
    "operators": (lambda: Calls(many_operators), {}, None, [(MATRIX,)]),
    "sizes": (lambda: Calls(lambda self, x: x.reshape(-1, 1, x.shape[0])[:x.shape[0] // 2]
                            * (x.shape[0] * 2 + 1)), {}, ({0: Dim("n", min=4)},),
              [(torch.rand(4, 3),), (torch.rand(6, 3),)]),
    "grad mode": (lambda: Calls(with_gradients), {}, None, [(MATRIX,)]),
    "number": (lambda: Calls(checked), {}, None, [(MATRIX,)]),
    "cond": (lambda: Calls(lambda self, x: torch.cond(
        x.sum() > 0, lambda x: x @ self.weight, lambda x: x.cos(), (x,))), {}, None,
        [(MATRIX,), (-MATRIX,)]),
    "while": (lambda: Calls(while_tensors), {}, None, [(MATRIX,)]),
    "while over rows": (lambda: Calls(while_rows), {}, ({0: Dim("n", min=2)},),
                        [(torch.rand(4, 3),), (torch.rand(7, 3),)]),
    "scan": (lambda: Calls(lambda self, x: control_flow.scan(
        lambda c, x: ((c @ self.weight + x).tanh(), c + x), torch.zeros(3), x)), {}, None,
        [(MATRIX,)]),
    "map": (lambda: Calls(lambda self, x: control_flow.map(
        lambda x, y: x * 2 + y, x, self.weight[0])), {}, None, [(MATRIX,)]),
}


def save(name, folder):
    make, kwargs, shapes, inputs = CASES[name]
    module = make()
    with torch.no_grad():
        program = torch.export.export(module, inputs[0], kwargs, dynamic_shapes=shapes)
        calls = [(args, kwargs, pytree.tree_leaves(copy.deepcopy(module)(*args, **kwargs)))
                 for args in inputs]
    path = f"{folder}/{name}"
    torch.export.save(program, f"{path}.pt2", extra_files={"note": "text"})
    torch.save(calls, f"{path}.calls")
    return path, calls


@pytest.mark.filterwarnings("error:torch.export.save")
@pytest.mark.parametrize("name", CASES)
def test_programs_are_read_again(name, tmp_path):
    path, calls = save(name, tmp_path)
    extra = {"note": ""}
    program = torch.export.load(f"{path}.pt2", extra_files=extra)
    assert extra["note"] == "text"
    for args, kwargs, expected in calls:
        results = pytree.tree_leaves(program.module()(*args, **kwargs))
        torch.testing.assert_close(results, expected, equal_nan=True)


@pytest.mark.parity
@pytest.mark.filterwarnings("error:torch.export.save")
def test_pytorch_reads_them(tmp_path):
    pytest.importorskip("torch")
    paths = [save(name, tmp_path)[0] for name in CASES]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", READ, *paths], text=True,
                          capture_output=True, check=False)
    assert done.stdout.split("\n")[:-1] == paths, done.stderr[-2000:]


@pytest.mark.parity
def test_schemas_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    theirs = {str(s).removeprefix("aten::") for s in torch._C._jit_get_all_schemas()}
    assert not [line for lines in _read_lines().values() for line in lines if line not in theirs]


def test_an_overload_fits_a_calls_types():
    x = torch.ones(2)
    assert find_overload("add", [x, x], {}).overload_name == "Tensor"
    assert find_overload("pow", [x, 2], {}).overload_name == "Tensor_Scalar"
    assert find_overload("pow", [2, x], {}).overload_name == "Scalar"
    assert find_overload("sum", [x, [0]], {}).overload_name == "dim_IntList"
    assert find_overload("add", [x, "text"], {}) is None
    assert not get_schemas("no_such_operator")


def test_tied_parameters_stay_one(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    program = torch.export.export(Tied(), (MATRIX,))
    torch.export.save(program, tmp_path / "tied.pt2")
    state = torch.export.load(tmp_path / "tied.pt2").state_dict
    assert state["a.weight"] is state["b.weight"] is not state["a.bias"]


def test_what_pytorch_cannot_read_is_named(tmp_path):
    class Assigns(nn.Module):
        def forward(self, x):
            y = x * 1
            y[:, 0] = torch.zeros(1, 1)  # more axes than the place has
            return y

    program, file = torch.export.export(Assigns(), (MATRIX,)), io.BytesIO()
    with pytest.warns(UserWarning, match="PyTorch will not read this file, which has a call of"):
        torch.export.save(program, file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(MATRIX), Assigns()(MATRIX))
