"""`import torch` imports flambeau: a finder that serves flambeau's modules under torch's names.

Both names give the same module objects. The finder also provides the distribution `torch`.
`flambeau script.py` installs the finder for one process; the package that `flambeau alias install`
writes calls `replace_torch` when a program imports it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .. import version

TORCH_VERSION = version.__version__  # the release that flambeau follows
# The content of the file INSTALLER written by `flambeau alias install`.
INSTALLER = "flambeau"


class _SameModule:
    """A loader that returns an existing module."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return flambeau's module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Undo the import system's changes to the module: it keeps its name."""
        module.__spec__ = self._spec

    def get_code(self, fullname: str) -> Any:
        """Return the code of flambeau's module, for `python -m torch.x`."""
        loader: Any = self._spec.loader if self._spec is not None else None
        return loader.get_code(self._module.__name__) if loader is not None else None


def _build_import_error(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"No module named '{name}': flambeau, which stands in for torch here, does not have it yet",
        name=name,
    )


# Modules shadowed by a function of the same name, by package. PyTorch imports them before the
# function replaces the attribute, so that `from torch.autograd.gradcheck import ...` works.
_SHADOWED_MODULES = {
    "torch._higher_order_ops": ("associative_scan", "cond", "map", "scan", "while_loop"),
    "torch.ao.quantization": ("fuse_modules", "quantize"),
    "torch.autograd": ("gradcheck",),
    "torch.distributed": ("rendezvous",),
    "torch.multiprocessing": ("spawn",),
    "torch.nn.parallel": ("data_parallel", "parallel_apply", "replicate"),
    "torch.nn.utils": ("spectral_norm", "weight_norm"),
    "torch.quantization": ("fuse_modules", "quantize"),
}


# PyTorch installs functorch beside torch.
_PACKAGES = {"torch": "flambeau", "functorch": "flambeau._functorch.package"}


class TorchFinder:
    """Finds `torch` and `torch.x.y` as `flambeau` and `flambeau.x.y`, and `functorch`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Return the spec of flambeau's module. Raises ModuleNotFoundError if flambeau lacks it.

        It never passes a torch name on to other finders, which would load flambeau's files twice,
        or the real PyTorch.
        """
        if fullname.partition(".")[0] not in ("torch", "functorch"):
            return None
        module = self._module(fullname)
        for name in _SHADOWED_MODULES.get(fullname, ()):
            shadowed = importlib.import_module(f"{module.__name__}.{name}")
            sys.modules[f"{fullname}.{name}"] = shadowed
        loader: Any = _SameModule(module)  # not an importlib.abc.Loader, which is slow to import
        spec = ModuleSpec(fullname, loader, is_package=hasattr(module, "__path__"))
        spec.origin = getattr(module, "__file__", None)
        spec.submodule_search_locations = getattr(module, "__path__", None)
        return spec

    @staticmethod
    def _module(fullname: str) -> ModuleType:
        top, _, _ = fullname.partition(".")
        target = _PACKAGES[top] + fullname[len(top) :]
        try:
            module = importlib.import_module(target)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{target}.".startswith(error.name + "."):
                raise  # flambeau has the module, but a dependency is not installed
            raise _build_import_error(fullname) from None
        parent, _, last = target.rpartition(".")
        result = vars(sys.modules[parent]).get(last) if parent else module
        if result is None:  # an absent module, below a package that was imported after it
            setattr(sys.modules[parent], last, module)
        elif result is not module:
            # flambeau.tensor is a package but torch.tensor a function: the import system would
            # replace the function by the package.
            raise _build_import_error(fullname)
        return module

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """Yield the distribution `torch`, in the version whose behavior flambeau has.

        Nothing if the alias is installed in the environment, as its files provide it.
        """
        if getattr(context, "name", None) in ("torch", None) and not _is_on_disk(context):
            yield _find_distribution()


def _is_on_disk(context: Any) -> bool:
    from importlib.metadata import DistributionFinder, MetadataPathFinder

    search = DistributionFinder.Context(name="torch", path=getattr(context, "path", sys.path))
    return any(
        (distribution.read_text("INSTALLER") or "").strip() == INSTALLER
        for distribution in MetadataPathFinder.find_distributions(search)
    )


def _find_distribution() -> Any:
    from importlib.metadata import Distribution

    class TorchDistribution(Distribution):
        def read_text(self, filename: str) -> str | None:
            if filename != "METADATA":
                return None
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH_VERSION}\n"

        def locate_file(self, path: Any) -> Any:
            return path

    return TorchDistribution()


class _InstallInChild:
    """Pickled into multiprocessing's start-up data: unpickling it installs the finder."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return install, ()


def _reach_children() -> None:
    """Install the finder in processes that multiprocessing spawns: they import the script again."""
    from multiprocessing import spawn

    original = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        return {"torch_alias": _InstallInChild(), **original(name)}

    spawn.get_preparation_data = get_preparation_data


def _take_torch_names(package: str) -> None:
    """Give the package and its tensor classes torch's names, for `print(type(x))` and for
    libraries that identify tensors by the module of their class."""
    flambeau = importlib.import_module("flambeau")
    flambeau.__name__ = package
    torch_s = package == "torch"
    flambeau.Tensor.__module__ = "torch" if torch_s else "flambeau.tensor.tensor"
    flambeau.nn.Parameter.__module__ = f"{package}.nn.parameter"
    flambeau.dtype.__module__ = "torch" if torch_s else "flambeau.tensor.dtypes"
    flambeau.device.__module__ = "torch" if torch_s else "flambeau.tensor.devices"
    flambeau.Size.__module__ = "torch" if torch_s else "flambeau.tensor.size"


def is_installed() -> bool:
    """Whether `import torch` imports flambeau in this process."""
    return any(isinstance(finder, TorchFinder) for finder in sys.meta_path)


def install() -> None:
    """Make `import torch` import flambeau, from now on and in spawned processes.

    Raises RuntimeError if the real PyTorch has already been imported.
    """
    if is_installed():
        return
    present = sys.modules.get("torch")
    if present is not None and present is not sys.modules.get("flambeau"):
        raise RuntimeError("torch is imported already: install the alias before")
    sys.meta_path.insert(0, TorchFinder())
    _take_torch_names("torch")
    _reach_children()


def replace_torch() -> None:
    """Replace the module `torch` being imported by flambeau.

    The package `torch` that `flambeau alias install` writes only calls this. Spawned processes find
    that package themselves.
    """
    if not is_installed():
        sys.meta_path.insert(0, TorchFinder())
    _take_torch_names("torch")
    sys.modules["torch"] = sys.modules["flambeau"]


def uninstall() -> None:
    """Make `import torch` import PyTorch again, if installed."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, TorchFinder)]
    flambeau = sys.modules.get("flambeau")
    if flambeau is not None:
        _take_torch_names("flambeau")
    if sys.modules.get("torch") is flambeau:
        for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
            del sys.modules[name]
