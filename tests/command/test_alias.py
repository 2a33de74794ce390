"""`flambeau alias`: `import torch` means flambeau in an environment, and pip and editors agree."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.metadata import PathDistribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from flambeau.command import alias, alias_files
from flambeau.command.torch_alias import TORCH_VERSION

pytestmark = pytest.mark.skipif(
    (spec := find_spec("torch")) is not None and "flambeau" not in (spec.origin or ""),
    reason="the real PyTorch is installed beside the tests",
)
ROOT = Path(__file__).resolve().parents[2]


class Environment:
    """A virtual environment that finds flambeau and what it needs through PYTHONPATH."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.folder = folder
        (self.site,) = [p for p in folder.rglob("site-packages") if "lib64" not in p.parts]
        self.python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"

    def run(self, *args, expected=0):
        path = os.pathsep.join([str(ROOT), *(p for p in sys.path if p)])
        done = subprocess.run(
            [self.python, *args], cwd=self.folder, env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, timeout=120, check=False,
        )
        assert done.returncode == expected, done.stdout + done.stderr
        return done.stdout + done.stderr

    def alias(self, *args, expected=0):
        return self.run("-m", "flambeau", "alias", *args, expected=expected)


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "env")


def put_real_torch(site: Path, version="2.5.1") -> dict[Path, str]:
    """Files as pip leaves them; an older alias's `__init__.py` is overwritten."""
    info = f"torch-{version}.dist-info"
    files = {
        site / "torch/__init__.py": f"__version__ = '{version}'\n",
        site / "torch/nn.py": "",
        site / info / "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
        site / info / "INSTALLER": "pip\n",
        site / info / "RECORD": f"torch/__init__.py,,\n{info}/METADATA,,\n",
    }
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return files


PROGRAM = """\
    import multiprocessing, importlib.metadata, importlib.util
    import torch.nn as nn, torch
    from torch.utils.data import DataLoader
    import flambeau

    def child(queue, received):
        import torch
        queue.put(torch.arange(3))
        received.wait()  # as in PyTorch, the memory's descriptor is this process's until then

    def test_names():
        assert torch is flambeau and nn is flambeau.nn
        assert torch.nn.functional is flambeau.nn.functional
        assert importlib.metadata.version("torch") == "VERSION"
        assert len(list(importlib.metadata.distributions(name="torch"))) == 1
        assert importlib.metadata.requires("torch") is None
        assert importlib.util.find_spec("torch.nn.functional").name == "torch.nn.functional"
        assert type(torch.ones(1)).__module__ == "torch"

    if __name__ == "__main__":
        test_names()
        context = multiprocessing.get_context("spawn")
        queue, received = context.Queue(), context.Event()
        process = context.Process(target=child, args=(queue, received))
        process.start()
        print(queue.get().tolist())
        received.set()
        process.join()
    """


def test_every_program_of_the_environment_sees_flambeau(environment):
    before = sorted(environment.site.rglob("*"))
    environment.alias("status", expected=1)
    assert "pip install -c" in environment.alias("install")
    assert "means flambeau" in environment.alias("status")
    program = environment.folder / "test_program.py"
    program.write_text(textwrap.dedent(PROGRAM).replace("VERSION", TORCH_VERSION))
    assert environment.run(program) == "[0, 1, 2]\n"
    assert environment.run("-m", "flambeau", program) == "[0, 1, 2]\n"
    assert environment.run("-c", "import torch; print(torch.ones(1))") == "tensor([1.])\n"
    assert "1 passed" in environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", program)
    environment.alias("uninstall")
    assert sorted(environment.site.rglob("*")) == before
    environment.run("-c", "import torch", expected=1)
    environment.alias("uninstall", expected=1)


def test_modules_behind_functions_of_their_name_can_be_imported(environment):
    environment.alias("install")
    said = environment.run("-c", textwrap.dedent("""
        from torch.autograd.gradcheck import GradcheckError
        from torch.multiprocessing.spawn import spawn
        from torch.nn.parallel.data_parallel import DataParallel
        from torch.nn.parallel.parallel_apply import parallel_apply
        from torch.nn.parallel.replicate import replicate
        from torch.nn.utils.spectral_norm import SpectralNorm
        from torch.nn.utils.weight_norm import WeightNorm
        from torch.ao.quantization.quantize import quantize
        import torch
        print(torch.autograd.gradcheck.__name__, torch.nn.utils.weight_norm.__name__,
              torch.ao.quantization.quantize is quantize, torch.multiprocessing.spawn is spawn)
    """))
    assert said.split() == ["gradcheck", "weight_norm", "True", "True"]


def test_installing_again_replaces_what_another_version_wrote(environment):
    environment.alias("install")
    info = environment.site / alias_files.DIST_INFO
    older = info.rename(info.with_name("torch-2.12.0.dist-info"))
    record = older / "RECORD"
    record.write_text(record.read_text().replace(info.name, older.name))
    assert "2.12.0" in environment.alias("status")
    environment.alias("install")
    assert [p.name for p in environment.site.glob("*.dist-info")] == [alias_files.DIST_INFO]


def test_metadata_is_what_installers_expect(tmp_path):
    assert alias.install(tmp_path) == 0
    distribution = PathDistribution(tmp_path / alias_files.DIST_INFO)
    assert (distribution.name, distribution.version) == ("torch", TORCH_VERSION)
    listed = {file.as_posix(): file for file in distribution.files}
    assert set(listed) == {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    }
    for name, file in listed.items():
        if not name.endswith("RECORD"):
            data = (tmp_path / name).read_bytes()
            assert (f"sha256={file.hash.value}", file.size) == (
                alias_files.hash_content(data), len(data))
    constraints = tmp_path / alias_files.CONSTRAINTS
    assert constraints.read_text() == f"torch=={TORCH_VERSION}\n"
    copy = tmp_path / "constraints.txt"
    assert alias.main(["install", "--target", str(tmp_path), "--constraints", str(copy)]) == 0
    assert copy.read_text() == constraints.read_text()


def test_a_real_torch_is_not_shadowed_unless_forced(environment):
    files = put_real_torch(environment.site)
    message = environment.alias("install", expected=1)
    assert "the real PyTorch 2.5.1 is installed" in message and "--force" in message
    assert "real PyTorch 2.5.1" in environment.alias("status", expected=1)
    elsewhere = environment.folder / "elsewhere"
    environment.alias("install", "--target", elsewhere, expected=1)
    assert not elsewhere.exists()
    assert {path: path.read_text() for path in files} == files

    environment.alias("install", "--force")
    environment.run("-c", "import torch, flambeau; assert torch is flambeau")
    assert "is back" in environment.alias("uninstall")
    assert {path: path.read_text() for path in files} == files
    assert environment.run("-c", "import torch; print(torch.__version__)") == "2.5.1\n"


def test_a_real_torch_installed_later_wins(environment):
    environment.alias("install")
    files = put_real_torch(environment.site)
    assert environment.run("-c", "import torch; print(torch.__version__)") == "2.5.1\n"
    message = environment.alias("status", expected=1)
    assert "real PyTorch 2.5.1" in message and "no effect" in message
    environment.alias("uninstall")
    left = [p for p in environment.site.rglob("*") if p.is_file() and p.suffix != ".pyc"]
    assert sorted(left) == sorted(files)


def test_what_cannot_be_done_is_said_clearly(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    assert alias.main(["install", "--target", str(tmp_path / "file" / "site")]) == 1
    assert "cannot write to" in capsys.readouterr().err
    monkeypatch.setattr(alias.site, "ENABLE_USER_SITE", False)
    assert alias.main(["install", "--user"]) == 1
    assert "--user" in capsys.readouterr().err
    assert alias.main(["install", "--target", str(tmp_path / "site")]) == 0
    assert "not on sys.path" in capsys.readouterr().out


def test_without_flambeau_the_import_says_why(tmp_path):
    alias.install(tmp_path)
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import torch"], env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )
    assert "flambeau is not installed" in done.stderr


@pytest.mark.slow
def test_a_type_checker_knows_the_names(tmp_path):
    pytest.importorskip("mypy")
    alias.install(tmp_path)
    (tmp_path / "program.py").write_text(textwrap.dedent("""\
        import torch
        from torch import nn
        from torch.nn.modules.linear import Linear
        from torch.utils.data import DataLoader
        reveal_type(torch.ones(2))
        reveal_type(nn.Linear(1, 2))
        torch.nothing
        """))
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", "program.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": path}, capture_output=True, text=True,
        check=False,
    )
    assert 'Revealed type is "flambeau.tensor.tensor.Tensor"' in done.stdout
    assert 'Revealed type is "flambeau.nn.modules.linear.Linear"' in done.stdout
    assert 'no attribute "nothing"' in done.stdout and "Found 1 error" in done.stdout
