"""Small modules of torch.utils and torch.multiprocessing, and modules that only have names."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import flambeau


def test_one_process_has_the_baton(torch, tmp_path):
    baton = importlib.import_module(f"{torch.__name__}.utils.file_baton").FileBaton
    first, second = baton(tmp_path / "lock"), baton(tmp_path / "lock", 0.01, 0.02)
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    second.wait()
    assert second.try_acquire()


def test_pools_send_tensors():
    program = (
        "import flambeau as torch\n"
        "from flambeau.multiprocessing.pool import Pool\n"
        "from flambeau.multiprocessing.queue import SimpleQueue\n"
        "import multiprocessing\n"
        "def double(x): return x * 2\n"
        "if __name__ == '__main__':\n"
        "    with Pool(2) as pool:\n"
        "        print([y.tolist() for y in pool.map(double, [torch.ones(2), torch.zeros(1)])])\n"
        "    queue = SimpleQueue(ctx=multiprocessing.get_context())\n"
        "    queue.put(torch.arange(3))\n"
        "    print(queue.get().tolist())\n"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                            timeout=120, check=True).stdout
    assert output.splitlines() == ["[[2.0, 2.0], [0.0]]", "[0, 1, 2]"]


@pytest.mark.parametrize(("module", "name"), [
    ("cuda.comm", "broadcast"), ("utils.mobile_optimizer", "optimize_for_mobile"),
    ("utils.mkldnn", "to_mkldnn"),
])
def test_modules_to_be_imported_by_name_say_what_is_absent(module, name):
    absent = getattr(importlib.import_module(f"flambeau.{module}"), name)
    with pytest.raises(NotImplementedError, match=f"torch.{module}.{name} is not implemented"):
        absent()


def test_type_of_the_base_class_is_the_default(torch):
    assert torch.tensor([True]).type(torch.Tensor).dtype is torch.float32


def test_ranges_for_profilers_decorate(torch):
    @torch.cuda.nvtx.range("forward")
    def forward():
        return 1

    if not flambeau.cuda.is_available():
        with pytest.raises(RuntimeError, match="NVTX functions not installed"):
            forward()
