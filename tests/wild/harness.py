"""PyTorch's test harness, `torch.testing._internal`, read from an installed PyTorch as modules of
flambeau: `install()` lets `import torch` mean flambeau, and its test files find their harness.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import harness_gaps
from stand_ins import StandInModule

# In these modules `torch` is lenient: they name every operator of PyTorch.
_TABLES = re.compile(
    r"testing\.(_pt_comparison$|_internal\.(opinfo(\..*)?|common_methods_invocations|common_nn"
    r"|common_modules|common_optimizers|autograd_function_db)$)"
)
_PLAIN_IMPORT = re.compile(r"^import (torch(\.\w+)*)$", re.M)


class _Loader(importlib.abc.Loader):
    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        source = self.path.read_text()
        for old, new in harness_gaps.CHANGES.get(self.name, []):
            source = source.replace(old, new)
        if _TABLES.match(self.name):
            lenient = r"import \1, torch, stand_ins; torch = stand_ins.Lenient(torch, 'torch')"
            source = _PLAIN_IMPORT.sub(lenient, source)
        module.__file__ = str(self.path)
        parent, _, last = module.__name__.rpartition(".")
        setattr(sys.modules[parent], last, module)  # circular imports look there
        alias = "torch" + module.__name__.removeprefix("flambeau")
        sys.modules[alias] = module
        try:
            exec(compile(source, self.path, "exec"), module.__dict__)
        finally:  # while an import of the alias runs, the import system would execute it again
            sys.modules.pop(alias, None)
        for name, submodule in list(sys.modules.items()):
            parent, _, last = name.rpartition(".")
            if parent in (module.__name__, alias) and not hasattr(module, last):
                setattr(module, last, submodule)


class _StandInLoader(importlib.abc.Loader):
    def create_module(self, spec: Any) -> Any:
        module = StandInModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: Any) -> None:
        pass


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, pytorch: Path) -> None:
        self.pytorch = pytorch

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        name = fullname.removeprefix("flambeau.")
        if name == fullname:
            return None
        there = importlib.machinery.PathFinder.find_spec
        if name in harness_gaps.LEFT_OUT or (
            name in harness_gaps.STAND_INS and there(fullname, path) is None
        ):
            return importlib.machinery.ModuleSpec(fullname, _StandInLoader(), is_package=True)
        if name.startswith(harness_gaps.OWN):
            folder = Path(sys.modules["flambeau"].__file__ or "").parent
            return there(fullname, [str(folder.joinpath(*name.split(".")[:-1]))])
        if any(name == own or name.startswith(own + ".") for own in harness_gaps.FROM_PYTORCH):
            return self._of_pytorch(fullname, name)
        return None

    def _of_pytorch(self, fullname: str, name: str) -> Any:
        base = self.pytorch / harness_gaps.FILES.get(name, name.replace(".", "/"))
        folder = [str(base)] if (base / "__init__.py").is_file() else None
        for file in (base / "__init__.py", base.with_suffix(".py"), base):
            if file.is_file():
                return importlib.util.spec_from_file_location(
                    fullname, file, loader=_Loader(file, name), submodule_search_locations=folder
                )
        return None


def install(pytorch: Path) -> None:
    """Lets `import torch` mean flambeau, with the harness of the PyTorch in the folder given."""
    from flambeau.command import torch_alias

    torch_alias.install()
    sys.meta_path.insert(0, _Finder(pytorch))
    import torch

    harness_gaps.fill(torch)
