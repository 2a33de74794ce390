"""Modules that share their names with functions: programs import from them under the alias."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from torch._higher_order_ops.while_loop import while_loop
from torch._higher_order_ops.map import map
from torch._higher_order_ops.scan import scan
import torch
assert while_loop is torch.while_loop is torch._higher_order_ops.while_loop
print(scan.__name__, map.__name__)
"""


def test_control_flow_is_imported_from_its_modules(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "flambeau", path], capture_output=True, text=True,
                          check=False)
    assert done.stdout == "scan map\n", done.stderr
