"""torch.onnx.verification: how far an exported model's results are from the program's."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..ops.core.operator import PUBLIC
from ..tensor.dtypes import dtype
from ..tensor.tensor import Tensor
from .testing import compute_expected

__all__ = ["VerificationInfo", "verify_onnx_program"]

_EDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6)  # of the histograms


@dataclasses.dataclass
class VerificationInfo:
    """The differences between the values of one result: the largest, and histograms of all.

    A histogram is a pair: counts, and the edges of the bins.
    """

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[Tensor, Tensor]
    rel_diff_hist: tuple[Tensor, Tensor]
    expected_dtype: dtype
    actual_dtype: dtype

    @classmethod
    def from_tensors(cls, name: str, expected: Any, actual: Any) -> VerificationInfo:
        """Compare two tensors or numbers.

        >>> from flambeau.onnx.verification import VerificationInfo
        >>> VerificationInfo.from_tensors("y", torch.ones(2), torch.ones(2)).max_abs_diff
        0.0
        """
        torch = PUBLIC["torch"]
        first, second = (x if isinstance(x, Tensor) else torch["tensor"](x)
                         for x in (expected, actual))
        a, b = (x.double() for x in (first, second))
        distance = (a - b).abs()
        relative = distance / (a.abs() + 1e-7)
        edges = torch["tensor"](_EDGES)
        hists = [(torch["histogram"](x.float().flatten(), edges).hist, edges)
                 for x in (distance, relative)]
        far, relatively = (float(x.max()) if x.numel() else 0.0 for x in (distance, relative))
        return cls(name, far, relatively, hists[0], hists[1], first.dtype, second.dtype)

    def asdict(self) -> dict[str, Any]:
        """Return the fields, with lists for tensors."""
        result: dict[str, Any] = dict(vars(self))
        for name in ("abs_diff_hist", "rel_diff_hist"):
            result[name] = [x.tolist() for x in result[name]]
        for name in ("expected_dtype", "actual_dtype"):
            result[name] = str(result[name])
        return result


def verify_onnx_program(
    onnx_program: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
    compare_intermediates: bool = False,
) -> list[VerificationInfo]:
    """Run the model and the program that it was built from; return the differences by result.

    `args`, `kwargs`: the inputs; by default, the example inputs.

    >>> from flambeau.onnx.verification import verify_onnx_program
    >>> program = torch.onnx.export(nn.ReLU(), (torch.ones(3),))
    >>> [info.max_abs_diff for info in verify_onnx_program(program)]
    [0.0]
    """
    if compare_intermediates:
        raise NotImplementedError("torch.onnx.verification: compare_intermediates")
    program = onnx_program.exported_program
    if program is None:
        raise ValueError("The ONNX program does not contain an exported program. Please provide an "
                         "exported program to verify the ONNX program.")
    if args is None and kwargs is None:
        args, kwargs = program.example_inputs
    args, kwargs = args or (), kwargs or {}
    expected = compute_expected(program, args, kwargs)
    actual = onnx_program(*args, **kwargs)
    names = [value.name for value in onnx_program.model_proto.graph.output]
    return [VerificationInfo.from_tensors(*parts)
            for parts in zip(names, expected, actual, strict=True)]
