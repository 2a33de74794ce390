"""The public surface: every name of PyTorch's is there, or says that it is not."""

import importlib
import types
import warnings

import pytest

import flambeau
from flambeau.tensor.absent import Lacking
from flambeau.tensor.absent import _read_lines, list_methods, list_names

# torch.distributed answers for its names itself.
MODULES = [name for name in _read_lines() if not name.endswith(".")
           and not name.startswith("torch.distributed.")]
PUBLIC = [name for name in MODULES if not any(p.startswith("_") for p in name.split("."))]


def find_module(path):
    value = flambeau
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("module", PUBLIC)
def test_module_and_its_names(module):
    """Reachable by attribute and by import; each of its names too."""
    home = find_module(module)
    if isinstance(home, Lacking):
        return
    imported = importlib.import_module("flambeau" + module.removeprefix("torch"))
    if not isinstance(home, types.ModuleType):  # a function of this name hides it, as in PyTorch
        home = imported
    for name in list_names(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(home, name)


def test_methods():
    missing = [name for name in list_methods("torch.Tensor") if not hasattr(flambeau.Tensor, name)]
    assert missing in ([], ["index"])


def test_an_absent_name_says_so():
    import flambeau.utils.data.datapipes.dataframe as module

    with pytest.raises(NotImplementedError, match=r"torch\.utils\.data\.datapipes\.\S* is not imp"):
        module.CaptureDataFrame()
    with pytest.raises(NotImplementedError, match=r"torch.package.PackageExporter is not impl"):
        flambeau.package.PackageExporter("file")
    with pytest.raises(NotImplementedError, match=r"torch.Tensor.to_mkldnn is not implemented"):
        flambeau.ones(2).to_mkldnn()


def test_a_misspelt_name_is_an_attribute_error():
    for module in (flambeau, flambeau.utils, flambeau.nn.functional, flambeau.package):
        with pytest.raises(AttributeError, match="has no attribute 'misspelt'"):
            _ = module.misspelt


def test_other_homes_lead_to_the_same_object():
    assert flambeau.autograd.grad_mode.no_grad is flambeau.no_grad
    assert flambeau.signal.windows.windows.hann is flambeau.signal.windows.hann
    assert flambeau.nn.functional.grad is flambeau.nn.grad
    from flambeau.nn.parallel.scatter_gather import gather  # noqa: F401


@pytest.mark.parity
def test_names_are_pytorchs():
    """What torch_names.txt lists, PyTorch has; what PyTorch exports, the list has."""
    torch = pytest.importorskip("torch")
    for name in (*torch.__all__, *torch.nn.modules.__all__):
        home = flambeau if name in torch.__all__ else flambeau.nn
        assert hasattr(home, name), name
    for module in ("torch.utils.deterministic", "torch.quasirandom", "torch.nn.parallel.comm"):
        theirs = importlib.import_module(module)
        assert [n for n in list_names(module) if not hasattr(theirs, n)] == []
