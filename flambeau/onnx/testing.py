"""torch.onnx.testing: compare an exported model with the program it was built from."""

from __future__ import annotations

from typing import Any

from ..ops.core.operator import PUBLIC
from ..tensor.tensor import Tensor
from ..testing import assert_close
from ..utils import _pytree as pytree

__all__ = ["assert_onnx_program"]


def assert_onnx_program(
    program: Any, *, rtol: float | None = None, atol: float | None = None,
    args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
    strategy: str | None = "TorchExportNonStrictStrategy", backend: str = "onnxruntime",
) -> None:
    """Assert that the model computes what its exported program computes.

    `args`, `kwargs`: the inputs; by default, the example inputs. `strategy`: the way in which the
    program must have been exported, or None. `backend`: "onnxruntime" or "reference".
    Raises AssertionError for other results.

    >>> program = torch.onnx.export(nn.ReLU(), (torch.ones(3),))
    >>> torch.onnx.testing.assert_onnx_program(program, backend="reference")
    """
    if strategy is not None and program._capture_strategy != strategy:
        raise ValueError(f"Expected strategy '{strategy}' is used to capture the exported program, "
                         f"but got '{program._capture_strategy}'.")
    if backend not in ("onnxruntime", "reference"):
        raise ValueError(f"Unsupported backend '{backend}'. Supported backends are 'onnxruntime' "
                         "and 'reference'.")
    if program.exported_program is None:
        raise ValueError("The ONNXProgram does not contain an ExportedProgram. Assign it to the "
                         "ONNXProgram.exported_program attribute.")
    if args is None and kwargs is None:
        args, kwargs = program.exported_program.example_inputs
    args, kwargs = args or (), kwargs or {}
    expected = compute_expected(program.exported_program, args, kwargs)
    run = program if backend == "onnxruntime" else program.call_reference
    assert_close(tuple(run(*args, **kwargs)), expected, rtol=rtol, atol=atol, equal_nan=True,
                 check_device=False)


def compute_expected(exported_program: Any, args: Any, kwargs: Any) -> tuple[Tensor, ...]:
    """Return the tensors that the model should compute."""
    results = pytree.tree_leaves(exported_program.module()(*args, **kwargs))
    return tuple(x if isinstance(x, Tensor) else PUBLIC["torch"]["tensor"](x)
                 for x in results if x is not None)
