"""Pushes a tangent through each operator of PyTorch's database: `op_db`, float64, a few samples.

    python operator_tangents.py torch|flambeau OUT.pickle SAMPLES [REGEX]

Both libraries draw the same samples from the same seed. OUT: {operator: [sample]}, and each sample
{"results", "tangents", "differences": lists of arrays} or {"error": text}. The differences are
symmetric quotients of the results along the same direction.
"""

from __future__ import annotations

import importlib.util
import pickle
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STEP = 1e-6
# Compiled for another device, reads behind the tensor it gets, or reads memory that nobody wrote.
LEFT_OUT = re.compile(r"jiterator_|as_strided\.partial_views|empty|resize_")


def tensors_of(tree: Any) -> Iterator[Any]:
    """The tensors in nested containers, in order."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for x in tree:
            yield from tensors_of(x)
    elif isinstance(tree, dict):
        yield from tensors_of(list(tree.values()))


def replaced(tree: Any, tensors: dict[int, Any]) -> Any:
    """The containers with other tensors, looked up by the old ones' ids."""
    if id(tree) in tensors:
        return tensors[id(tree)]
    if isinstance(tree, (list, tuple)):
        parts = [replaced(x, tensors) for x in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if isinstance(tree, dict):
        return {key: replaced(x, tensors) for key, x in tree.items()}
    return tree


def pushed(operator: Any, sample: Any) -> dict[str, list]:
    """Results, tangents and difference quotients of one sample."""
    forward_ad = torch.autograd.forward_ad
    inputs = (sample.input, sample.args, sample.kwargs)
    leaves = [x for x in tensors_of(inputs) if x.requires_grad]
    points = [x.detach() for x in leaves]
    torch.manual_seed(1)
    directions = [torch.randn_like(x) for x in points]

    def call(values: list[Any]) -> list[Any]:
        torch.manual_seed(2)  # operators that draw draw the same
        x, args, kwargs = replaced(inputs, dict(zip(map(id, leaves), values, strict=True)))
        result = operator.gradcheck_wrapper(operator.op, x, *args, **kwargs)
        return [y for y in tensors_of(sample.output_process_fn_grad(result))
                if y.is_floating_point() or y.is_complex()]

    with forward_ad.dual_level():
        duals = [forward_ad.unpack_dual(y) for y in call(
            [forward_ad.make_dual(x.clone(), d) for x, d in zip(points, directions, strict=True)])]
    results = [dual.primal.detach() for dual in duals]
    tangents = [torch.zeros_like(dual.primal) if dual.tangent is None else dual.tangent.detach()
                for dual in duals]
    after = call([x + STEP * d for x, d in zip(points, directions, strict=True)])
    before = call([x - STEP * d for x, d in zip(points, directions, strict=True)])
    return {"results": arrays(results), "tangents": arrays(tangents),
            "differences": arrays([(a - b) / (2 * STEP)
                                   for a, b in zip(after, before, strict=True)])}


def arrays(tensors: list[Any]) -> list[Any]:
    """Dense NumPy arrays of the tensors."""
    dense = [x if x.layout is torch.strided else x.to_dense() for x in tensors]
    return [x.detach().resolve_conj().resolve_neg().numpy().copy() for x in dense]


def samples_of(operator: Any, count: int) -> list[Any]:
    """Up to `count` samples that have something to differentiate, spread over all there are."""
    torch.manual_seed(0)
    random.seed(0)
    every = [s for s in operator.sample_inputs("cpu", torch.float64, requires_grad=True)
             if any(x.requires_grad for x in tensors_of((s.input, s.args, s.kwargs)))]
    return every if len(every) <= count else [
        every[i * (len(every) - 1) // (count - 1)] for i in range(count)]


def described(check: Callable[[], dict[str, list]]) -> dict[str, Any]:
    try:
        return check()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    """Writes the pickle."""
    library, out, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    only = re.compile(sys.argv[4] if len(sys.argv) > 4 else "")
    warnings.simplefilter("ignore")
    if library == "flambeau":
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "wild"))
        import harness

        harness.install(Path(importlib.util.find_spec("torch").origin).parent)
    global torch
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    result = {}
    for operator in op_db:
        name = operator.full_name
        if operator.supports_forward_ad and torch.float64 in operator.dtypes \
                and only.search(name) and not LEFT_OUT.search(name):
            result[name] = [described(lambda s=sample, o=operator: pushed(o, s))
                            for sample in samples_of(operator, count)]
    out.write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main()
