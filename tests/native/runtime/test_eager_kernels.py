"""Every kernel builder that eager operators declare is there, and none is imported too early."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau.ops  # its families declare the builders
from flambeau.native.runtime.eager_kernels import EagerKernel

OPS = Path(flambeau.ops.__file__).parent


@pytest.mark.parametrize("builder", EagerKernel.declared, ids=repr)
def test_the_builder_is_there(builder: EagerKernel) -> None:
    function = builder.resolve()
    assert callable(function)
    assert function.__module__.endswith(f".kernels.{builder.module}")


def test_builders_are_declared() -> None:
    assert len(EagerKernel.declared) > 40


def test_a_name_that_is_not_there() -> None:
    missing = EagerKernel("sort", "bogosort")
    EagerKernel.declared.remove(missing)
    with pytest.raises(AttributeError, match="bogosort"):
        missing.build("int64")


@pytest.mark.parametrize("path", sorted(OPS.rglob("*.py")), ids=lambda p: str(p.relative_to(OPS)))
def test_no_builder_is_looked_up_by_a_string(path: Path) -> None:
    """Operators that import modules of native.kernels name their functions."""
    tree = ast.parse(path.read_text())
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("native.kernels")
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            looked_up = node.func.id in ("getattr", "hasattr")
            assert not (looked_up and ast.unparse(node.args[0]) in modules), f"line {node.lineno}"


def test_declarations_import_no_kernels() -> None:
    program = ("import flambeau as torch, sys; torch.randn(3, 4).softmax(1); "
               "print([m for m in sys.modules if m.startswith(('llvmlite', "
               "'flambeau.native.kernels.softmax_and_layer_norm', "
               "'flambeau.native.kernels.grid_sample'))])")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         check=True)
    assert run.stdout.strip() == "[]"
