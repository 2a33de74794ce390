"""Parts of PyTorch that are not there yet can be imported, and say so when they are used."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.tensor.absent import Lacking


@pytest.mark.parametrize("name", [
    "onnx.dynamo_export",
    "library.get_kernel", "autograd.profiler.emit_nvtx", "distributed.pipelining.PipelineStage",
])
def test_using_one_names_it(name: str) -> None:
    module, _, last = name.rpartition(".")
    absent = getattr(__import__(f"flambeau.{module}", fromlist=["x"]), last)
    assert isinstance(absent, Lacking)
    with pytest.raises(NotImplementedError, match=f"torch.{name} is not implemented in flambeau"):
        absent(1)
    with pytest.raises(NotImplementedError, match=f"torch.{name}"):
        exec("class Derived(found): pass", {"found": absent})


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match=r"torch\.onnx.*has no attribute 'exprot'"):
        _ = torch.onnx.exprot


def test_old_names_of_mixed_precision() -> None:
    from flambeau.cuda.amp import GradScaler, autocast

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        scaler, region = GradScaler(), autocast()
    assert [warning.category for warning in seen] == [FutureWarning, UserWarning] * 2
    assert not scaler.is_enabled()
    with region:
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32


def test_hub_calls_what_a_folder_offers(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text(
        'dependencies = ["json"]\n'
        'def small(width, scale=1):\n    "A net."\n    return width * scale\n'
    )
    folder = str(tmp_path)
    assert torch.hub.load(folder, "small", 3, scale=2, source="local") == 6
    assert torch.hub.list(folder) == ["small"]
    assert torch.hub.help(folder, "small") == "A net."
    with pytest.raises(RuntimeError, match="Cannot find callable large"):
        torch.hub.load(folder, "large", source="local")
    with pytest.raises(NotImplementedError, match="source='local'"):
        torch.hub.load("pytorch/vision", "resnet18")


def test_names_of_hub_that_programs_import() -> None:
    assert torch.hub.HASH_REGEX.search("net-0a1b.pth")[1] == "0a1b"
    assert torch.hub._get_torch_home() == torch.hub.get_dir().removesuffix("/hub")


def test_hub_keeps_what_it_downloads(tmp_path: Path) -> None:
    source = tmp_path / "net-0000.pth"
    torch.save({"w": torch.ones(2)}, source)
    folder = tmp_path / "kept"
    state = torch.hub.load_state_dict_from_url(source.as_uri(), str(folder))
    assert state["w"].tolist() == [1, 1]
    assert [path.name for path in folder.iterdir()] == ["net-0000.pth"]
    with pytest.raises(RuntimeError, match="invalid hash value"):
        torch.hub.load_state_dict_from_url(source.as_uri(), str(tmp_path / "x"), check_hash=True)
    assert not list((tmp_path / "x").iterdir())


def test_private_names_of_pytrees_that_programs_import() -> None:
    from flambeau.utils import _pytree

    assert _pytree._dict_unflatten(*_pytree._dict_flatten({"a": 1})) == {"a": 1}
    pairs, keys = _pytree._dict_flatten_with_keys({"a": 1})
    assert (pairs, keys) == ([(_pytree.MappingKey("a"), 1)], ["a"])
    assert _pytree._get_node_type([]) in _pytree.SUPPORTED_NODES


def test_downloads_show_their_share_where_tqdm_is_not_installed(capsys, monkeypatch) -> None:
    from flambeau.utils import model_zoo

    monkeypatch.setitem(sys.modules, "tqdm", None)
    with model_zoo.tqdm(total=4, disable=False, unit="B") as bar:
        bar.set_description("net")
        bar.update(1)
        bar.update(3)
    assert capsys.readouterr().err == "\r25.0%\r100.0%\n"


OPTIONAL = """
try:
    from torch.utils.data.datapipes.dataframe import CaptureDataFrame
    from torch._jit_internal import _copy_to_script_wrapper
    found = True
except ImportError:
    found = False
from torch.onnx import OnnxExporterError
"""


def test_an_import_within_try_fails(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(OPTIONAL + "print(found, OnnxExporterError.__name__)\n")
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", str(program)], text=True, capture_output=True, check=True
    )
    assert done.stdout == "False OnnxExporterError\n"


def test_futures_of_types():
    assert torch.futures.Future[int].__origin__ is torch.futures.Future
    assert torch.Future[torch.Tensor].__args__ == (torch.Tensor,)


@pytest.mark.parametrize("path", [
    "distributed.elastic.agent.server.api",
    "distributed.elastic.multiprocessing.errors.error_handler",
])
def test_modules_inside_of_what_is_one_file_here_can_be_imported(path: str) -> None:
    module = importlib.import_module(f"flambeau.{path}")
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None
