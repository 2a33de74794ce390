"""torch.export: what programs compute, which sizes they take, what files hold, what is refused."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim, export, load, save
from flambeau.export.archive import ArchiveError
from flambeau.export.errors import UserError
from flambeau.utils import _pytree as pytree
from flambeau.utils._sympy.value_ranges import ValueRanges


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.relu, self.linear = nn.ReLU(inplace=True), nn.Linear(4, 2)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.relu(self.norm(self.conv(x))), 2).mean((2, 3))
        return {"p": torch.softmax(self.linear(x), -1).view(-1), "n": x.shape[0] * 2}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        out, (h, _) = self.lstm(self.embed(x))
        return out[:, -1], h


class Attention(nn.Module):
    def forward(self, x, y):
        b, t = x.shape[0], x.size(1)
        mask = torch.tril(torch.ones(t, t)).bool()
        scores = (x @ x.transpose(-1, -2)) / 2**0.5
        p = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        z = torch.cat([p @ x, y.expand(b, t, -1)], -1).reshape(b * t, -1)
        return z[:, None, ::2] + torch.arange(b * t)[:, None, None], 3 - x.mT, x**2


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


BT = {0: Dim("b"), 1: Dim("t")}
CASES = [
    (Convolutions, lambda b, t: (torch.randn(b, 3, 8, 8),), ({0: Dim("b")},)),
    (Recurrent, lambda b, t: (torch.randint(10, (b, t)),), (BT,)),
    (Attention, lambda b, t: (torch.randn(b, t, 4), torch.randn(4)), {"x": BT}),
    (encoder, lambda b, t: (torch.randn(b, t, 8),), (BT,)),
]


@pytest.mark.parametrize("make, inputs, shapes", CASES)
def test_a_program_computes_what_the_module_does_for_all_its_sizes(make, inputs, shapes):
    module = make().eval()
    program = export(module, inputs(2, 5), dynamic_shapes=shapes)
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    loaded = load(file)
    assert str(loaded.graph) == str(program.graph)
    for sizes in ((2, 5), (3, 7), (1, 4)):
        args = inputs(*sizes)
        wanted = pytree.tree_leaves(module(*args))
        for run in (program.module(), loaded.module()):
            for a, b in zip(pytree.tree_leaves(run(*args)), wanted, strict=True):
                assert torch.allclose(a, b, atol=1e-5) if isinstance(b, torch.Tensor) else a == b


def test_the_graph_is_of_aten_operators_and_the_signature_says_what_is_what():
    module = Convolutions().eval()
    shapes = {"x": {0: Dim("batch", max=9)}}
    program = export(module, (torch.randn(2, 3, 8, 8),), dynamic_shapes=shapes)
    targets = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert targets[:4] == ["aten.conv2d.default", "aten.batch_norm.default", "aten.relu_.default",
                           "aten.max_pool2d.default"]
    signature = program.graph_signature
    assert signature.parameters[:2] == ("conv.weight", "conv.bias")
    assert signature.inputs_to_buffers["b_norm_running_mean"] == "norm.running_mean"
    assert signature.user_inputs == ("x",)
    assert program.range_constraints == {"s0": ValueRanges(0, 9)}
    assert program.module().state_dict().keys() == module.state_dict().keys()
    conv = next(n for n in program.graph.nodes if n.name == "conv2d")
    assert list(conv.meta["nn_module_stack"].values())[-1][0] == "conv"
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(torch.randn(2, 3, 8, 8))


def test_other_sizes_than_exported_are_refused():
    program = export(nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("b", max=8)},))
    run = program.module()
    with pytest.raises(AssertionError, match=r"Guard failed: input.size\(\)\[1\] == 3"):
        run(torch.ones(4, 4))
    with pytest.raises(AssertionError, match=r"size\(\)\[0\] <= 8"):
        run(torch.ones(9, 3))


class ByValue(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class BySize(nn.Module):
    def forward(self, x):
        return x if x.shape[0] == 3 else -x


class ByLoop(nn.Module):
    def forward(self, x):
        return sum(x[i] for i in range(x.shape[0]))


@pytest.mark.parametrize("module, text, line", [
    (ByValue, "data-dependent", "if x.sum() > 0"),
    (BySize, "Constraints violated", "x.shape[0] == 3"),
    (ByLoop, "Constraints violated", ""),
])
def test_what_cannot_be_exported_names_the_line_and_the_fix(module, text, line):
    shapes = None if module is ByValue else {"x": {0: Dim("n")}}
    with pytest.raises(RuntimeError, match=text) as caught:
        export(module(), (torch.ones(3, 2),), dynamic_shapes=shapes)
    place, fix = caught.value.__notes__
    assert line in place
    assert len(fix) > 20


class Transposed(nn.Module):
    def forward(self, x):
        return x.T, x.mT, x.mH, x[0].T, x[0].H


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_transposes(dtype):
    """T reverses all axes, H conjugates."""
    x = torch.randn(2, 3, 4, dtype=getattr(torch, dtype))
    module = Transposed()
    for y, expected in zip(export(module, (x,)).module()(x), module(x), strict=True):
        assert torch.equal(y, expected)


def test_bad_arguments():
    with pytest.raises(ValueError, match="Expected `mod` to be an instance"):
        export(lambda x: x, (torch.ones(1),))
    with pytest.raises(UserError, match="Expecting `args` to be a tuple"):
        export(nn.ReLU(), torch.ones(1))
    with pytest.raises(UserError, match="top-level keys must be the arg names"):
        export(nn.ReLU(), (torch.ones(1),), dynamic_shapes={"y": {0: Dim("b")}})
    with pytest.raises(ValueError, match="inconsistent min"):
        Dim("b", min=3, max=2)


def archive(change):
    """An archive whose program was changed."""
    file, changed = io.BytesIO(), io.BytesIO()
    save(export(nn.Linear(3, 2), (torch.ones(4, 3),)), file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("program.json"):
                program = json.loads(content)
                change(program)
                content = json.dumps(program)
            new.writestr(name, content)
    changed.seek(0)
    return changed


def call_node(program):
    return next(n for n in program["nodes"] if n["op"] == "call_function")


@pytest.mark.parametrize("change", [
    lambda p: call_node(p).update(target="os.system"),
    lambda p: call_node(p).update(target="torch.load"),
    lambda p: call_node(p).update(target="torch.ops.aten.__class__.x"),
    lambda p: call_node(p).update(target="torch.hub.load"),
    lambda p: call_node(p).update(op="call_module", target="x"),
    lambda p: call_node(p).update(op="get_attr", target="__class__"),
    lambda p: call_node(p)["args"]["list"].append({"torch": "hub"}),
    lambda p: p.update(names=["x): import os #"]),
    lambda p: p["nodes"].pop(0),
    lambda p: p.clear(),
])
def test_a_damaged_or_hostile_archive_runs_no_code(change):
    with pytest.raises(ArchiveError):
        load(archive(change))


def test_names_of_nodes_cannot_carry_code():
    def change(program):
        program["nodes"][0]["name"] = program["nodes"][0]["target"] = "a, b=__import__('os')"

    with pytest.raises(ArchiveError):
        load(archive(change))


def test_a_file_that_is_no_archive():
    with pytest.raises(ArchiveError, match="no archive of a program"):
        load(io.BytesIO(b"not a zip file"))


def test_a_write_whose_result_nobody_uses_stays():
    class Written(nn.Module):
        def forward(self, x):
            y = x * 1
            z = y.view(-1)
            y.relu_()
            nn.functional.elu_(z)
            return z

    x = torch.tensor([[-2.0, 1.0]])
    program = export(Written(), (x,))
    assert torch.equal(program.module()(x), Written()(x))
    assert [n.target.__name__ for n in program.graph.nodes if n.op == "call_function"][2] \
        == "relu_.default"


def test_a_tensor_given_twice_is_two_inputs():
    class Difference(nn.Module):
        def forward(self, x, y, z):
            return x - y * z["z"]

    x, n = torch.rand(3, 2), Dim("n")
    same, dims = (x, x, {"z": x}), ({0: n}, {0: n}, {"z": {0: n}})
    inputs = torch.rand(3, 2), torch.rand(3, 2), {"z": torch.rand(3, 2)}
    for options in ({}, {"dynamic_shapes": dims}):
        program = export(Difference(), same, **options)
        assert torch.equal(program.module()(*inputs), Difference()(*inputs))


def test_vmap_is_recorded_also_after_an_earlier_one():
    """Stubs that linger after the first vmap lie below those of the second."""
    def squares(x):
        return torch.vmap(lambda row: row.sin() * 2)(x)

    class Squares(nn.Module):
        def forward(self, x):
            return squares(x)

    x, y = torch.rand(3, 2), torch.rand(3, 2)
    for _ in range(2):
        squares(x)
        torch.func.jvp(squares, (x,), (y,))
        assert torch.equal(export(Squares(), (x,)).module()(y), squares(y))


def test_cosine_similarity_is_an_operator():
    class Similarity(nn.Module):
        def forward(self, x, y):
            return nn.functional.cosine_similarity(x, y)

    program = torch.export.export(Similarity(), (torch.ones(2, 3), torch.ones(2, 3)))
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == [
        "aten.cosine_similarity.default"]
