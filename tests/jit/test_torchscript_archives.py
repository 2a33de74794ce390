"""torch.jit.load of archives that PyTorch wrote: they run, train, and reach operators alone."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.serialization.archive import ArchiveWriter

ARCHIVES = Path(__file__).parent / "archives"
STORED = sorted(path.stem for path in ARCHIVES.glob("*.pt"))


def loaded(path):
    """The module, its input, what PyTorch's gave and the gradients there."""
    extra = {"expected": "", "nothing": "as it was"}
    module = torch.jit.load(path, _extra_files=extra)
    assert extra["nothing"] == "as it was"
    expected = torch.load(io.BytesIO(extra["expected"]))
    return module, expected["input"], expected["output"], expected["gradients"]


def check(path):
    module, x, y, gradients = loaded(path)
    result = module(x.clone())
    result = result if isinstance(result, torch.Tensor) else result[0]
    torch.testing.assert_close(result, y, atol=3e-5, rtol=1e-5)
    if gradients:
        (result * result).sum().backward()
    for name, parameter in module.named_parameters():
        expected = gradients.get(name)
        assert (parameter.grad is None) == (expected is None)
        if expected is not None:
            torch.testing.assert_close(parameter.grad, expected, atol=3e-3, rtol=1e-4)


def test_the_archives_are_there():
    assert STORED == ["classes", "control_flow", "mlp", "mlp_traced", "recurrent"]


@pytest.mark.parametrize("name", STORED)
def test_values_and_gradients_are_pytorchs(name):
    check(ARCHIVES / f"{name}.pt")


@pytest.mark.parity
def test_archives_written_now(tmp_path):
    pytest.importorskip("torch")
    subprocess.run([sys.executable, ARCHIVES / "write.py", tmp_path, "all"], check=True)
    paths = sorted(tmp_path.glob("*.pt"))
    assert len(paths) == 8 + 6 + 8
    for path in paths:
        check(path)


def test_a_loaded_module_is_a_module(tmp_path):
    module = torch.jit.load(ARCHIVES / "mlp.pt")
    assert isinstance(module, torch.jit.ScriptModule)
    assert repr(module) == ("RecursiveScriptModule(\n  original_name=Mlp\n"
                            "  (first): RecursiveScriptModule(original_name=Linear)\n"
                            "  (second): RecursiveScriptModule(original_name=Linear)\n)")
    assert list(module.state_dict()) == ["first.weight", "first.bias", "second.weight",
                                         "second.bias"]
    assert module.scale == 0.5
    assert module.code.startswith("def forward(self,\n    x: Tensor) -> Tensor:\n  second = self")
    x = torch.ones(1, 4)
    again = copy.deepcopy(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = module(x)
    before.sum().backward()
    optimizer.step()
    assert not torch.equal(module(x), before)
    assert torch.equal(again(x), before)
    assert module.double()(x.double()).dtype is torch.float64
    assert not module.eval().first.training
    meta = torch.jit.load(ARCHIVES / "mlp.pt", map_location="meta")
    assert meta.first.weight.device.type == "meta"
    with pytest.raises(RuntimeError, match="Pickling of ScriptModules"):
        torch.save(module, tmp_path / "module.pt")


def test_methods_attributes_and_state():
    module = torch.jit.load(ARCHIVES / "control_flow.pt")
    assert module.above({"a": 1, "b": 3}, 2) == ["b-3"]
    assert module.limit == 3
    module(torch.ones(3, 2))
    assert module.count == 1
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing  # noqa: B018
    y, text = torch.jit.load(ARCHIVES / "classes.pt")(torch.ones(3))
    assert y.shape == (3,)
    assert text == "2 z"


def test_the_lists_of_a_recurrent_layer_hold_its_parameters():
    module = torch.jit.load(ARCHIVES / "recurrent.pt")
    assert module.cells._flat_weights[0] is module.cells.weight_ih_l0


def test_arguments_that_do_not_fit():
    module = torch.jit.load(ARCHIVES / "mlp.pt")
    with pytest.raises(RuntimeError, match="missing value for argument 'x'. Declaration: forward"):
        module()
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'x'"):
        module(1)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'z'"):
        module(torch.ones(1, 4), z=1)


# ------------------------------------------------------------------------------ hostile archives


def archive(body: str, data: bytes | None = None, top: str = "", constants: bytes = b"\x80\x02).",
            declared: str = "") -> io.BytesIO:
    """An archive of a module `M`, whose forward has this body."""
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    writer.record("data.pkl", data or b"\x80\x02c__torch__\nM\n)\x81}X\x08\0\0\0training\x88sb.")
    code = f"{top}\nclass M(Module):\n  __parameters__ = []\n  training : bool\n{declared}"
    code += f"  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n    {body}\n"
    writer.record("code/__torch__.py", code.encode())
    writer.record("constants.pkl", constants)
    writer.close()
    file.seek(0)
    return file


def test_the_archive_of_these_tests_runs():
    assert torch.equal(torch.jit.load(archive("return torch.neg(x)"))(torch.ones(2)),
                       -torch.ones(2))


HOSTILE = [
    "import os", "return __import__('os').system('touch hacked')", "return open('hacked', 'w')",
    "return eval('1')", "return ().__class__.__bases__[0].__subclasses__()",
    "return x.__class__.__mro__", "return (x).__reduce_ex__(2)", "return self.__dict__",
    "return self.forward.__globals__", "return self.__class__", "return self._modules",
    "return getattr(self, '__class__')", "return getattr(x, '_array')", "return x._array",
    "return (x).numpy()", "return torch.load('hacked')", "return torch.save(x, 'hacked')",
    "return torch.from_file('hacked', True, 4)", "return torch.os.system('touch hacked')",
    "return torch.serialization.os.system('touch hacked')", "return (x).tofile('hacked')",
    "return ops.image.write_file('hacked', x)", "return __builtins__", "return g_get",
    "return torch.format('{0.__class__}', x)", "f = torch.load\n    return f('hacked')",
    "return (lambda: x)()", "return [y for y in ().__class__]", "return __torch__.M.__init__",
    "return __torch__.os.system('touch hacked')", "global x\n    return x",
    "return (x).apply_(torch.neg)", "return torch.nn.Module", "return str.__class__",
    "return print.__self__", "self.__class__ = x\n    return x", "self.forward = x\n    return x",
    "x.__class__ = self\n    return x", "x._array = 1\n    return x", "return x().y",
    "with open('hacked', 'w'):\n      pass\n    return x", "return torch.hub.load('a', 'b')",
    "@torch.compile\n    def f(): pass\n    return x", "return (self).load_state_dict(x)",
    "class A: pass\n    return x", "return (yield x)", "return torch.jit.load('hacked')",
    "return torch.compile(x)", "return ops.prim.__class__", "return CONSTANTS.c9",
    "return f'{x.__class__}'", "return (await x)", "return warnings.sys.modules",
]


@pytest.mark.parametrize("body", HOSTILE)
def test_code_reaches_nothing_but_operators(body, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((RuntimeError, AttributeError, TypeError, AssertionError)) as caught:
        result = torch.jit.load(archive(body))(torch.ones(4))
        assert result != "{0.__class__}", "nothing was formatted"
    assert not isinstance(caught.value, NotImplementedError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [
    b"cposix\nsystem\n(X\x0c\0\0\0touch hackedtR.", b"c__torch__.os\nsystem\n.",
    b"\x80\x02c__torch__",
    b"\x80\x02c__torch__\nM\n)\x81}X\x09\0\0\0__class__K\1sb.", b"\x80\x02c__torch__\nM\n)R.",
    b"\x80\x02c__torch__\nM\n)\x81K\1b.", b"\x80\x02K\1.", b"\x80\x02cbuiltins\neval\n.",
])
def test_pickles_of_an_archive(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((RuntimeError, AttributeError)):
        torch.jit.load(archive("return x", data))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("top", [
    "class P(NamedTuple):\n  __class__ : int", "class P(Module, Other):\n  pass",
    "class P(metaclass=M):\n  pass", "class P(Enum):\n  A = open('hacked', 'w')",
])
def test_classes_of_an_archive(top, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((RuntimeError, TypeError)):
        torch.jit.load(archive("return __torch__.P(x)", top=top))(torch.ones(2))
    assert list(tmp_path.iterdir()) == []


def test_code_that_is_no_code():
    for text in ("(" * 300, "retur n", "x = \0"):
        with pytest.raises(RuntimeError):
            torch.jit.load(archive(text))(torch.ones(1))


def test_damage_is_a_runtime_error():
    content = (ARCHIVES / "mlp.pt").read_bytes()
    for at in range(0, len(content), 197):
        damaged = bytearray(content)
        damaged[at] ^= 0xFF
        try:
            torch.jit.load(io.BytesIO(damaged))(torch.ones(1, 4))
        except (RuntimeError, AttributeError, TypeError):
            pass
    with pytest.raises(RuntimeError):
        torch.jit.load(io.BytesIO(content[: len(content) // 2]))


def test_an_unknown_operator_is_named_where_it_is_called():
    module = torch.jit.load(archive("return torch.no_such_operator(x)"))
    with pytest.raises(RuntimeError, match="Unknown builtin op: aten::no_such_operator"):
        module(torch.ones(1))
    with pytest.raises(RuntimeError, match="code/__torch__.py, line 6: undefined value nothing"):
        torch.jit.load(archive("return nothing"))(torch.ones(1))


def test_raised_errors_are_torch_jit_errors():
    body = 'ops.prim.RaiseException("too deep", "builtins.ValueError")\n    return x'
    with pytest.raises(torch.jit.Error, match="ValueError: too deep"):
        torch.jit.load(archive(body))(torch.ones(1))


def test_archives_hold_code_of_pytorch_only():
    with zipfile.ZipFile(ARCHIVES / "mlp.pt") as opened:
        assert any(name.endswith("code/__torch__.py") for name in opened.namelist())


class _Shelf:
    def __init__(self):
        self.items: Dict[str, int] = {"a": 1, "b": 2}  # noqa: F821

    def __delitem__(self, key: str):
        del self.items[key]

    def __call__(self, key: str) -> int:
        return self.items[key]


def test_objects_of_loaded_classes_are_called_and_lose_items(torch):
    def program() -> int:
        shelf = _Shelf()
        del shelf["b"]
        return shelf("a") + len(shelf.items)

    file = io.BytesIO()
    torch.jit.save(torch.jit.script(program), file)
    file.seek(0)
    assert torch.jit.load(file)() == 2


def test_lists_of_tensors_find_theirs(torch):
    def program() -> int:
        values = [torch.tensor(4), torch.tensor(3), torch.tensor(3)]
        return values.index(torch.tensor(3)) + 10 * values.count(torch.tensor(3))

    file = io.BytesIO()
    torch.jit.save(torch.jit.script(program), file)
    file.seek(0)
    assert torch.jit.load(file)() == 21


def test_sizes_may_be_separate_numbers(torch):
    def program(x: torch.Tensor) -> torch.Tensor:
        b, c = x.shape[:2]
        y = x.reshape(b, -1).view(size=[b, c, -1]).view(b, c, -1).permute(0, 2, 1)
        y = y.repeat(1, 2, 1).expand(b, -1, c).sum(1)
        return y.view([b, c] + [1] * (x.ndim - 2)) + torch.ones(b, c).unsqueeze(2).unsqueeze(3)

    file, x = io.BytesIO(), torch.arange(48.0).reshape(2, 4, 3, 2)
    torch.jit.save(torch.jit.script(program), file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(x), program(x))
