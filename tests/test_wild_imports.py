"""Names that libraries from the wild import or ask for, whose programs need no more of them."""

from __future__ import annotations

import subprocess
import sys
import threading
import typing
from pathlib import Path

import pytest

import flambeau as torch


def test_cuda_has_its_names_and_refuses_as_pytorch_without_it() -> None:
    from flambeau.cuda.memory import memory_summary
    from flambeau.cuda.streams import Stream

    with pytest.raises(RuntimeError, match="dummy base class CUDAGraph"):
        torch.cuda.CUDAGraph()
    for call in (torch.cuda.synchronize, memory_summary, torch.cuda.current_stream):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            call()
    with pytest.raises(RuntimeError, match=r"torch\.cuda\.Stream requires CUDA support"):
        Stream()
    with pytest.raises(TypeError, match=r"torch\.cuda\.FloatTensor not available"):
        torch.cuda.FloatTensor(2)
    with torch.cuda.stream(None), torch.cuda.device_of(torch.ones(1)):
        assert torch.cuda.memory_stats_as_nested_dict() == {}
    assert {"CUDAGraph", "stream", "is_available"} <= set(torch.cuda.__all__)


def test_placements_say_how_a_tensor_lies() -> None:
    from flambeau.distributed.tensor import Partial, Replicate, Shard
    from flambeau.distributed.tensor.placement_types import Placement, _StridedShard

    assert [repr(x) for x in (Shard(1), Replicate(), Partial("avg"))] == [
        "Shard(dim=1)", "Replicate()", "Partial(avg)"]
    assert [str(x) for x in (Shard(1), Replicate(), Partial(), _StridedShard(0, split_factor=2))] \
        == ["S(1)", "R", "P(sum)", "_S(0, 2)"]
    assert Shard(1).is_shard(1)
    assert not Shard(1).is_shard(0)
    assert Partial().is_partial("sum")
    assert Partial() == Partial("sum")
    assert isinstance(Shard(0), Placement)
    assert len({Shard(0), Shard(0), Replicate()}) == 2


def test_a_file_as_memory(tmp_path: Path) -> None:
    path = tmp_path / "bytes.bin"
    path.write_bytes(bytes(range(64)))
    private = torch.UntypedStorage.from_file(str(path), False, 64)
    x = torch.asarray(private[8:16], dtype=torch.uint8)
    assert x.tolist() == list(range(8, 16))
    x[0] = 99
    assert private[8] == 99
    assert path.read_bytes()[8] == 8
    shared = torch.UntypedStorage.from_file(str(path), True, 64)
    shared[0] = 9
    assert path.read_bytes()[0] == 9
    mapped = torch.from_file(str(tmp_path / "new.bin"), shared=True, size=3, dtype=torch.int16)
    mapped.fill_(5)
    assert (tmp_path / "new.bin").read_bytes() == b"\x05\x00" * 3
    with pytest.raises(RuntimeError, match="unable to mmap 128 bytes"):
        torch.UntypedStorage.from_file(str(path), False, 128)


def test_what_compilers_are_asked() -> None:
    from flambeau import _dynamo
    from flambeau._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from flambeau._subclasses.fake_tensor import is_fake

    compiled = torch.compile(torch.nn.Linear(1, 1))
    assert isinstance(compiled, _dynamo.eval_frame.OptimizedModule)
    assert _dynamo.assume_constant_result(len) is len
    with TransformGetItemToIndex():
        assert not is_fake(torch.ones(1))


def test_annotations_of_modules_can_be_looked_up() -> None:
    class Net(torch.nn.Linear):
        width: int

    assert typing.get_type_hints(Net)["width"] is int


def test_private_parts_of_printing() -> None:
    from flambeau import _tensor_str

    assert _tensor_str._tensor_str(torch.ones(2, 2), 7) == "[[1., 1.],\n        [1., 1.]]"
    assert _tensor_str._add_suffixes("f([1]", ["a=1"], 2) == "f([1], a=1)"
    assert _tensor_str.PRINT_OPTS.linewidth == 80


def test_other_names() -> None:
    from flambeau.serialization import MAP_LOCATION

    assert MAP_LOCATION is not None
    assert torch.torch is torch
    assert not torch.distributed.rpc.is_available()
    assert not hasattr(torch.distributed.rpc, "api")


def test_dtypes_that_are_only_named() -> None:
    assert repr(torch.chalf) == "torch.complex32"
    assert torch.complex32.is_complex
    assert (torch.qint8.itemsize, torch.float8_e8m0fnu.itemsize) == (1, 1)
    assert isinstance(torch.int4, torch.dtype)
    assert torch.ones(1).dtype not in (torch.complex32, torch.quint8)
    with pytest.raises(NotImplementedError, match="dtype torch.float8_e5m2fnuz are not "):
        torch.zeros(2, dtype=torch.float8_e5m2fnuz)
    with pytest.raises(NotImplementedError, match="torch.qint8 needs a scale and a zero point"):
        torch.ones(2).to(torch.qint8)


def test_trees_with_named_tuples_and_leaf_descriptions() -> None:
    from collections import namedtuple

    from flambeau.utils import _pytree as tree

    pair = namedtuple("pair", "a b")
    assert tree.tree_map(lambda x: x + 1, pair(1, (2, 3))) == pair(2, (3, 4))
    assert tree.tree_structure(1) == tree.LeafSpec()
    assert repr(tree.tree_structure([1, {"a": 2}])) == \
        "TreeSpec(list, None, [*,\n  TreeSpec(dict, ['a'], [*])])"
    assert tree._get_node_type(pair(1, 2)) in tree.SUPPORTED_NODES
    assert tree.SUPPORTED_NODES[list].flatten_fn([1, 2]) == ([1, 2], None)


def test_futures() -> None:
    first, second = torch.futures.Future(), torch.futures.Future()
    doubled = first.then(lambda done: done.value() * 2)
    whole = torch.futures.collect_all([first, second])
    with pytest.raises(RuntimeError, match="must be completed"):
        first.value()
    first.set_result(3)
    assert doubled.wait() == 6
    assert not whole.done()
    second.set_exception(ValueError("no"))
    assert whole.done()
    with pytest.raises(ValueError, match="no"):
        torch.futures.wait_all([first, second])
    with pytest.raises(RuntimeError, match="completed Future as complete again"):
        first.set_result(4)


def test_traces_that_never_are() -> None:
    from flambeau.fx.experimental.proxy_tensor import get_proxy_mode

    assert get_proxy_mode() is None
    assert torch.profiler.kineto_available()
    assert issubclass(torch.ScriptModule, torch.nn.Module)


def test_absent_modules_below_packages_of_ours(tmp_path: Path) -> None:
    """transformers imports from one at the top of its models' base module."""
    program = tmp_path / "program.py"
    program.write_text(
        "import torch.distributed.checkpoint as checkpoint\n"
        "from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader\n"
        "print(checkpoint.hf_storage.HuggingFaceStorageReader is not None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", str(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_private_names_that_libraries_import() -> None:
    from flambeau._jit_internal import Optional, _copy_to_script_wrapper, boolean_dispatch
    from flambeau.utils.data._utils.collate import np_str_obj_array_pattern

    assert Optional is typing.Optional
    assert np_str_obj_array_pattern.search("<U3") and not np_str_obj_array_pattern.search("<f4")
    assert _copy_to_script_wrapper(marked := lambda: None) is marked
    pick = boolean_dispatch("both", 1, False, lambda x, both: (x, x), lambda x, both=0: x, "m", "f")
    assert (pick(1), pick(1, True), pick(1, both=True)) == (1, (1, 1), (1, 1))
    assert (pick.__module__, pick.__name__) == ("m", "f")


def test_extensions_are_refused_when_they_are_built() -> None:
    from flambeau.utils.cpp_extension import CUDA_HOME, CUDAExtension, load

    assert CUDA_HOME is None
    for build in (load, CUDAExtension):
        with pytest.raises(NotImplementedError, match=rf"cpp_extension\.{build.__name__}"):
            build(name="fast", sources=["fast.cpp"])


def test_what_libraries_ask_of_settings_and_compiled_modules() -> None:
    model = torch.nn.Linear(2, 2)
    assert not torch.backends.flags_frozen()
    assert hasattr(torch.compile(model), "dynamo_ctx") and not hasattr(model, "dynamo_ctx")


def test_private_names_that_training_libraries_build_on() -> None:
    """Opacus, timm's optimizers, reversible layers, PyG, Lightning and pytorch-forecasting."""
    from flambeau.distributions.transforms import _clip_sigmoid
    from flambeau.nn.init import _no_grad_uniform_
    from flambeau.optim.optimizer import (
        _default_to_fused_or_foreach, _get_capturable_supported_devices,
        _use_grad_for_differentiable,
    )
    from flambeau.utils.data.dataloader import _collate_fn_t, _worker_init_fn_t

    assert typing.get_origin(_collate_fn_t[int]) is typing.get_origin(_worker_init_fn_t)
    assert torch.cuda._initialized is False
    assert not isinstance(torch.nn.ReLU(), torch.distributed.fsdp.FSDPModule)
    assert torch.legacy_contiguous_format is torch.contiguous_format
    limits = torch.finfo(torch.float32)
    assert _clip_sigmoid(torch.tensor([-1e4, 1e4])).tolist() == [limits.tiny, 1 - limits.eps]
    weight = torch.nn.Parameter(torch.empty(3))
    assert _no_grad_uniform_(weight, 2.0, 3.0).min() >= 2
    assert _default_to_fused_or_foreach([weight], False, True) == (True, False)
    assert _default_to_fused_or_foreach([weight], True, True) == (False, False)
    assert "cuda" in _get_capturable_supported_devices()

    class Halving(torch.optim.Optimizer):
        @_use_grad_for_differentiable
        def step(self) -> bool:
            self.param_groups[0]["params"][0].mul_(0.5)
            return torch.is_grad_enabled()

    weight.data.fill_(4)
    assert Halving([weight], {"differentiable": False}).step() is False
    assert weight.tolist() == [2, 2, 2]
    assert torch.is_grad_enabled()


def test_the_profiler_of_a_training_library_asks_what_runs() -> None:
    from flambeau.profiler.profiler import ProfilerAction, _default_schedule_fn, profile

    seen: list[bool] = []
    with profile():
        assert torch.autograd._profiler_enabled()
        thread = threading.Thread(target=lambda: seen.append(torch.autograd._profiler_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]
    assert not torch.autograd._profiler_enabled()
    assert _default_schedule_fn(3) is ProfilerAction.RECORD


def test_checkpointing_libraries_ask_which_gradients_are_computed() -> None:
    answers: list[bool] = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: answers.append(torch.autograd._is_checkpoint_valid()))
    y.sum().backward(retain_graph=True)
    torch.autograd.grad(y.sum(), x)
    engine = torch.autograd.Variable._execution_engine
    assert [*answers, engine.is_checkpoint_valid()] == [True, False, True]


def test_optimizers_that_update_all_parameters_together() -> None:
    from flambeau.optim import _multi_tensor

    for name in ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam",
                 "RMSprop", "Rprop", "SGD"):
        weights = []
        for module in (_multi_tensor, torch.optim):
            weight = torch.nn.Parameter(torch.ones(2))
            optimizer = getattr(module, name)([weight], lr=0.1)
            (weight * weight).sum().backward()
            optimizer.step()
            weights.append(weight.tolist())
            assert optimizer.defaults["foreach"] is (True if module is _multi_tensor else None)
        assert weights[0] == weights[1] != [1, 1]
    assert not _multi_tensor.SGD([weight], foreach=False).defaults["foreach"]
    assert type(optimizer).__name__ == "SGD"
    assert isinstance(_multi_tensor.AdamW([weight]), torch.optim.AdamW)
    assert repr(_multi_tensor.AdamW([weight])).startswith("NewCls (\nParameter Group 0\n")


def test_private_names_of_devices_and_old_modules() -> None:
    """tensordict asks for them, and Opacus imports the old name of distributed.tensor."""
    from flambeau import _utils
    from flambeau._subclasses.functional_tensor import FunctionalTensor, mb_unwrap_functional_tensor
    from flambeau.distributed._tensor.experimental import implicit_replication
    from flambeau.distributed.tensor import experimental

    assert implicit_replication is experimental.implicit_replication
    x = torch.ones(2)
    assert not isinstance(x, FunctionalTensor) and mb_unwrap_functional_tensor(x) is x
    assert _utils._get_available_device_type() is _utils._get_current_device_index() is None
    assert _utils._get_device_index("cpu", allow_cpu=True) == -1
    assert _utils.get_current_device_index() == -1
    with pytest.raises(ValueError, match="Expected a non cpu device, but got: cpu"):
        _utils._get_device_index("cpu")
    pieces = [x, x.double(), x + 1, x + 2]
    chunks = list(_utils._take_tensors(pieces, 16))
    assert [[t.dtype for t in chunk] for chunk in chunks] == [
        [torch.float32] * 2, [torch.float32], [torch.float64]]
    ordered = _utils._reorder_tensors_as([t for chunk in chunks for t in chunk], pieces)
    assert all(a is b for a, b in zip(ordered, pieces, strict=True))
