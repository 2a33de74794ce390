"""torch.export.load of `.pt2` files that PyTorch wrote."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.serialization.archive import ArchiveReader, ArchiveWriter

ARCHIVES = Path(__file__).parent / "archives"
SMALL = ARCHIVES / "small.pt2"


def check(path):
    extra = {"expected": ""}
    program = torch.export.load(path, extra_files=extra)
    expected = json.loads(extra["expected"])
    x = torch.tensor(expected["input"])
    y = program.module()(x)["y"]
    torch.testing.assert_close(y, torch.tensor(expected["output"], dtype=y.dtype), atol=2e-6,
                               rtol=1e-5)
    return program, x


def test_a_program_of_pytorch():
    program, x = check(SMALL)
    assert isinstance(program, torch.export.ExportedProgram)
    assert set(program.state_dict) == {
        "convolved.weight", "convolved.bias", "norm.weight", "norm.bias", "last.weight",
        "last.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    module = program.module()
    wide = module(torch.cat([x, x, x]))
    assert wide["y"].shape == (6, 3)
    wide["rows"].sum().backward()
    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.ones(2, 1, 6, 5))


def test_control_flow_of_pytorch():
    """cond, while_loop, map and scan: their arguments are graphs, and other inputs go other ways.
    """
    program, x = check(ARCHIVES / "loops.pt2")
    operators = {node.target.__name__ for node in program.graph.nodes if callable(node.target)}
    assert {"cond", "while_loop", "map_impl", "scan"} <= operators
    bias, weight = program.state_dict["linear.bias"], program.state_dict["linear.weight"]
    for sign in (1.0, -1.0, 20.0):
        z = sign * x.abs()
        a, b = ((z @ weight.T + bias).sin(), z + 1) if z.sum() > 0 else (z.cos(), z - 1)
        rounds = 0
        while rounds < 5 and b.abs().sum() < 100:
            b, rounds = b * 2, rounds + 1
        total, rows = torch.zeros(3), []
        for row in b.sin() + bias:
            rows.append(total * row)
            total = total + row
        expected = torch.cat([a, torch.stack(rows), (total * rounds)[None]])
        torch.testing.assert_close(program.module()(z)["y"], expected, atol=1e-5, rtol=1e-5)


def test_it_is_saved_as_flambeaus_own():
    program, x = check(SMALL)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file)
    assert torch.equal(again.module()(x)["y"], program.module()(x)["y"])


@pytest.mark.parity
def test_programs_written_now(tmp_path):
    pytest.importorskip("torch")
    subprocess.run([sys.executable, ARCHIVES / "write.py", tmp_path], check=True)
    paths = sorted(tmp_path.glob("*.pt2"))
    assert len(paths) == 5
    for path in paths:
        check(path)


def changed(old: str, new: str) -> io.BytesIO:
    """The small archive with other text in its graph."""
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    with open(SMALL, "rb") as opened:
        reader = ArchiveReader(opened)
        for name in reader.names():
            if name.endswith(("version", "serialization_id")) and name != "archive_version":
                continue
            data = reader.read(name)
            if name == "models/model.json":
                assert old.encode() in data
                data = data.replace(old.encode(), new.encode())
            writer.record(name, data)
    writer.close()
    file.seek(0)
    return file


@pytest.mark.parametrize("target", [
    "torch.ops.aten.no_such.default", "torch.ops.aten.from_file.default", "torch.load", "os.system",
    "torch.ops.mine.relu.default", "torch.ops.higher_order.triton_kernel_wrapper_mutation",
    "torch.ops.aten.__class__.default", "_operator.attrgetter",
])
def test_unknown_targets_are_named(target):
    with pytest.raises(NotImplementedError, match="torch.export.load: the operator"):
        torch.export.load(changed("torch.ops.aten.relu.default", target))


def test_damage():
    for old, new in (('"as_tensor"', '"as_graph"'), ('"user_output"', '"loss_output"'), ("{", "[")):
        with pytest.raises((RuntimeError, NotImplementedError)):
            torch.export.load(changed(old, new))
