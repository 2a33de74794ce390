"""After the user's line a traceback shows one line of flambeau's, unless all are asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.native.foundation import tracebacks
from flambeau.native.foundation.user_frames import PACKAGE

PROGRAM = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 2))

    def forward(self, x):
        return self.layers(x)

def test_net():
    Net()(torch.ones(3, 5))
"""


def run(*args: str, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k != "FLAMBEAU_TRACEBACK"}
    done = subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=120,
                          env={**inherited, "COLUMNS": "200", **environment}, check=False)
    return done.stdout + done.stderr


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_scripts(tmp_path):
    script = write(tmp_path / "net.py", PROGRAM + "\ntest_net()\n")
    text = run("-m", "flambeau", script)
    assert text.count(PACKAGE) == 0
    assert text.count("inside flambeau (FLAMBEAU_TRACEBACK=full shows them)") == 1
    assert text.index("return self.layers(x)") < text.index("inside flambeau")
    assert "cannot be multiplied (3x5 and 4x2)\nIn layers.0: Linear(" in text
    assert run("-m", "flambeau", script, FLAMBEAU_TRACEBACK="full").count(PACKAGE) > 4


def test_causes_are_shortened_and_users_errors_are_whole(tmp_path):
    script = write(tmp_path / "net.py", PROGRAM + """
try:
    test_net()
except RuntimeError as error:
    raise ValueError("mine") from error
""")
    text = run("-m", "flambeau", script)
    assert PACKAGE not in text
    assert "direct cause" in text
    assert text.endswith("ValueError: mine\n")


def test_suggestions(tmp_path):
    lines = {"nn.Conv2d(3, 8, kernal_size=3)": "Did you mean 'kernel_size'?",
             "torch.soft_max": "softmax",
             "nn.functional.soft_max": "softmax", "torch.ones(2).requires_gradd": "requires_grad",
             "Net().layer": "layers", "prnt": "print",
             "torch.optim.SGD(Net().parameters(), learning_rate=1)": "Did you mean 'lr'?",
             "torch.optim.SGD(Net().parameters, lr=1)": "write parameters().",
             "torch.optim.SGD(Net(), lr=1)": "write .parameters()."}
    for line, hint in lines.items():
        text = run("-m", "flambeau", write(tmp_path / "net.py", f"{PROGRAM}\n{line}\n"))
        assert hint in text.splitlines()[-1], text
        assert "During handling" not in text


def test_pytest(tmp_path):
    test = write(tmp_path / "test_net.py", PROGRAM.replace("torch", "flambeau as torch", 1)
                 .replace("from torch", "from flambeau"))
    args = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", test)
    text = run(*args)
    assert "1 failed" in text
    assert "return self.layers(x)" in text
    assert PACKAGE not in text
    assert "In layers.0: Linear(" in text
    assert PACKAGE.rstrip(os.sep).rpartition(os.sep)[2] in run(*args, FLAMBEAU_TRACEBACK="full")


def test_notebooks(tmp_path):
    pytest.importorskip("IPython")
    cells = write(tmp_path / "cells.py", f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell({PROGRAM.replace("import torch", "import flambeau as torch")
                .replace("from torch", "from flambeau")!r})
shell.run_cell("test_net()")
import sys, traceback
print("whole:", len(traceback.extract_tb(sys.last_traceback)))
""")
    text = re.sub(r"\x1b\[[\d;]*m", "", run(cells, IPYTHONDIR=str(tmp_path)))
    assert "self.layers" in text
    assert "inside flambeau" in text
    assert PACKAGE not in text.partition("whole:")[0]
    assert int(text.partition("whole:")[2].split()[0]) > 5


def test_hidden_frames():
    own = PACKAGE + "ops.py"
    numpy = f"{os.sep}site-packages{os.sep}numpy{os.sep}core.py"
    shown = tracebacks.select_frames(["a.py", own, "b.py", numpy, own, numpy, os.__file__])
    assert shown == [True, False, True, True, False, False, False]
    assert tracebacks.count_hidden_at_end(shown) == 3
    assert tracebacks.select_frames([own]) == [True]


def test_generated_code_has_its_source():
    import linecache

    torch.add(torch.ones(1), torch.ones(1))
    torch.clamp(torch.ones(1), 0, 1)
    files = [file for file in linecache.cache if file.startswith("<flambeau operator")]
    assert files
    linecache.checkcache()
    assert linecache.getline(files[0], 1).strip()
