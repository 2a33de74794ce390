"""Operators on DTensors: redistribute the inputs, call the operator on the parts, wrap the results.

What propagation decides depends on the arguments' specs only, and is kept for the next call.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ... import ops
from ...autograd.mode import no_grad
from ...ops.interception.torch_dispatch import without_dispatch
from ...tensor import Tensor
from .local_calls import LOCAL_CALLS, LocalCall
from .placement_types import Placement, Replicate
from .propagation import Operation, Rule, choose_placements
from .redistribute import redistribute_local
from .rules.table import find_rule
from .spec import DTensorSpec, TensorMeta, dense_strides

__all__ = ["implicit_replication", "run_operator", "spec_of"]

# By operator: arguments that are plain tensors of the tape's own, such as statistics.
_OWN_TENSORS = frozenset(("_layer_norm", "_layer_norm_backward", "_batch_norm", "_index_add",
                          "_batch_norm_backward", "_group_norm", "_group_norm_backward"))
# Operators that change the shape of their first argument's wrapper.
_RESHAPES_IN_PLACE = frozenset(("squeeze_", "unsqueeze_", "t_", "transpose_"))


class _State(threading.local):
    replicates_implicitly = False
    # Rules and local calls in addition to the tables', as `loss_parallel` has them.
    extra: tuple[dict[str, Rule], dict[str, Callable[[LocalCall], Any]]] = ({}, {})


STATE = _State()


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Context in which plain tensors among DTensors count as replicated."""
    before, STATE.replicates_implicitly = STATE.replicates_implicitly, True
    try:
        yield
    finally:
        STATE.replicates_implicitly = before


class _Decision(NamedTuple):
    """What propagation decided for a call."""

    wanted: list[tuple[Placement, ...]]
    outputs: list[Any]
    metas: list[TensorMeta] | None  # of the outputs; None: those of the local results


_DECISIONS: dict[Any, _Decision] = {}


def spec_of(value: Any) -> DTensorSpec | None:
    """Return the spec of a DTensor, None for anything else."""
    return value.__dict__.get("_spec") if isinstance(value, Tensor) else None


def run_operator(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
    wrap: Callable[[Tensor, DTensorSpec], Tensor],
) -> Any:
    """Run an operator on DTensors; `wrap` makes a DTensor of a local part and a spec."""
    name = func.overloadpacket.__name__
    if kwargs.get("out") is not None:
        return _run_into(func, args, kwargs, wrap)
    tensors: list[Any] = []
    described = _describe(name, args, tensors), _describe(name, kwargs, tensors)
    first = next(spec for t in tensors if (spec := spec_of(t)) is not None)
    specs = [_find_spec(func, tensor, first) for tensor in tensors]
    operation = Operation(name, _place(described[0], specs), _place(described[1], specs), specs,
                          func)
    writes = name.endswith("_") and not name.endswith("__")
    decision = _decide(func, operation, writes)
    if first.mesh.get_coordinate() is None:  # this process has no part
        return args[0] if writes else _wrap_nothing(func, operation, decision, first, wrap)
    parts = [_prepare(tensor, spec, placements) for tensor, spec, placements
             in zip(tensors, specs, decision.wanted, strict=True)]
    local = LocalCall(func, operation, _place(described[0], parts), _place(described[1], parts),
                      decision.wanted, decision.outputs,
                      [meta.shape for meta in decision.metas or ()])
    result = _call(local, is_plain=decision.metas is None and not writes)
    if writes and isinstance(args[0], Tensor):
        return _finish_write(name, args[0], result, decision, first)
    return _wrap_all(result, decision, first, wrap)


def _run_into(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
    wrap: Callable[[Tensor, DTensorSpec], Tensor],
) -> Any:
    """Run an operator with `out=`: each result is redistributed to its target's placements."""
    out = kwargs["out"]
    targets = out if isinstance(out, (tuple, list)) else (out,)
    inputs = {name: value for name, value in kwargs.items() if name != "out"}
    for target in targets:
        if spec_of(target) is None:
            raise _create_mixed_error(func)
    results = run_operator(func, args, inputs, wrap)
    for target, y in zip(targets, results if isinstance(results, tuple) else (results,),
                         strict=True):
        spec, placements = y.__dict__["_spec"], target.__dict__["_spec"].placements
        if tuple(target.shape) != spec.shape:
            raise RuntimeError(f"{func}: out= has shape {tuple(target.shape)}, the result "
                               f"{spec.shape}")
        with no_grad():
            part = redistribute_local(y.__dict__["_local_tensor"], spec, placements)
            target.__dict__["_local_tensor"].copy_(part)
    return out


def _call(local: LocalCall, is_plain: bool) -> Any:
    """Run the operator on the parts. `is_plain`: they are whole tensors."""
    name = local.operation.name
    if not is_plain:
        if name in STATE.extra[1]:
            result = STATE.extra[1][name](local)
            if result is not NotImplemented:
                return result
        if name in LOCAL_CALLS:
            return LOCAL_CALLS[name](local)
    return local.func(*local.args, **local.kwargs)


def _choose_rule(name: str) -> Rule | None:
    """Return the operator's rule, with the strategies of `STATE.extra` in front."""
    rule, extra = find_rule(name), STATE.extra[0].get(name)
    if extra is None or rule is None:
        return extra or rule
    return Rule(lambda operation: itertools.chain(extra.strategies(operation),
                                                  rule.strategies(operation)), rule.follows)


# ------------------------------------------------------------------------------ arguments


class _Slot(NamedTuple):
    """The place of a tensor among the arguments."""

    number: int


def _describe(name: str, value: Any, tensors: list[Any]) -> Any:
    """Return the value with numbered slots for its tensors, which are appended to the list."""
    if isinstance(value, Tensor):
        if name in _OWN_TENSORS and spec_of(value) is None:
            return value
        tensors.append(value)
        return _Slot(len(tensors) - 1)
    if value.__class__ in (list, tuple):
        return type(value)([_describe(name, v, tensors) for v in value])
    if value.__class__ is dict:
        return {key: _describe(name, v, tensors) for key, v in value.items()}
    return value


def _place(described: Any, values: list[Any]) -> Any:
    """Fill the slots with values."""
    if described.__class__ is _Slot:
        return values[described.number]
    if described.__class__ in (list, tuple):
        return type(described)([_place(d, values) for d in described])
    if described.__class__ is dict:
        return {key: _place(d, values) for key, d in described.items()}
    return described


def _find_spec(func: Any, tensor: Tensor, reference: DTensorSpec) -> DTensorSpec:
    """Return a tensor's spec. A plain number counts as replicated, other plain tensors raise."""
    spec = spec_of(tensor)
    if spec is not None:
        if spec.mesh != reference.mesh:
            raise RuntimeError(
                f"{func}: all operands in the DTensor operations must be on the same device mesh, "
                f"but got {reference.mesh} and {spec.mesh}")
        return spec
    is_replicated = STATE.replicates_implicitly or func.overloadpacket.__name__ in STATE.extra[0]
    if tensor.dim() and tensor.numel() != 1 and not is_replicated:
        raise _create_mixed_error(func)
    meta = TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
    return DTensorSpec(reference.mesh, (Replicate(),) * reference.mesh.ndim, meta)


def _prepare(tensor: Tensor, spec: DTensorSpec, placements: tuple[Placement, ...]) -> Tensor:
    """Return the tensor's local part under the placements that the operator needs."""
    local: Tensor = tensor.__dict__.get("_local_tensor", tensor)
    if spec.placements == placements:
        return local
    return redistribute_local(local, spec, placements)


# ------------------------------------------------------------------------------ the decision


def _decide(func: Any, operation: Operation, writes: bool) -> _Decision:
    """Return the placements of a call, from the cache if it has been seen."""
    key = _find_key(func, operation)
    decision = None if key is None else _DECISIONS.get(key)
    if decision is None:
        placements, outputs = choose_placements(operation, _choose_rule(operation.name), writes)
        cuts = any(not isinstance(p, Replicate) for placements in placements for p in placements)
        metas = _infer_outputs(func, operation) if cuts and not writes else None
        decision = _Decision(placements, outputs, metas)
        if key is not None:
            _DECISIONS[key] = decision
    return decision


def _find_key(func: Any, operation: Operation) -> Any:
    key = (str(func), operation.name in STATE.extra[0], _freeze(operation.args),
           _freeze(operation.kwargs))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _freeze(value: Any) -> Any:
    """Return a value that can be hashed and tells True from 1."""
    if value.__class__ in (list, tuple):
        return tuple(map(_freeze, value))
    if value.__class__ is dict:
        return tuple((key, _freeze(v)) for key, v in value.items())
    if value.__class__ in (int, float, bool):
        return value.__class__, value
    if value.__class__ is slice:
        return value.start, value.stop, value.step
    return id(value) if isinstance(value, Tensor) else value


def _infer_outputs(func: Any, operation: Operation) -> list[TensorMeta]:
    """Return the shapes of an operator's results on the global tensors."""
    def fake(value: Any) -> Any:
        if isinstance(value, DTensorSpec):
            if operation.name == "index" and value is not operation.inputs[0]:
                return ops.zeros(value.shape, dtype=value.tensor_meta.dtype)
            return ops.empty(value.shape, dtype=value.tensor_meta.dtype, device="meta")
        if value.__class__ in (list, tuple):
            return type(value)([fake(v) for v in value])
        return value

    with without_dispatch():
        result = func(*fake(operation.args), **{k: fake(v) for k, v in operation.kwargs.items()})
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [TensorMeta(tuple(y.shape), tuple(y.stride()), y.dtype) for y in results
            if isinstance(y, Tensor)]


# ------------------------------------------------------------------------------ results


def _wrap_all(
    result: Any, decision: _Decision, reference: DTensorSpec,
    wrap: Callable[[Tensor, DTensorSpec], Tensor],
) -> Any:
    """Wrap the tensors of a result, also in tuples and lists."""
    if isinstance(result, Tensor):
        return _wrap_output(result, decision, 0, reference, wrap)
    if not isinstance(result, (tuple, list)):
        return result
    wrapped = [_wrap_output(y, decision, i, reference, wrap) if isinstance(y, Tensor) else y
               for i, y in enumerate(result)]
    return type(result)(*wrapped) if hasattr(result, "_fields") else type(result)(wrapped)


def _wrap_output(
    local: Tensor, decision: _Decision, i: int, reference: DTensorSpec,
    wrap: Callable[[Tensor, DTensorSpec], Tensor],
) -> Tensor:
    placements = tuple(o[i] if isinstance(o, tuple) else o for o in decision.outputs)
    shape = tuple(local.shape if decision.metas is None else decision.metas[i].shape)
    meta = TensorMeta(shape, dense_strides(shape, local.stride()), local.dtype)
    return wrap(local, DTensorSpec(reference.mesh, placements, meta))


def _wrap_nothing(
    func: Any, operation: Operation, decision: _Decision, reference: DTensorSpec,
    wrap: Callable[[Tensor, DTensorSpec], Tensor],
) -> Any:
    """Return the results of a process outside of the mesh: tensors without elements."""
    results = []
    for i, meta in enumerate(decision.metas or _infer_outputs(func, operation)):
        placements = tuple(o[i] if isinstance(o, tuple) else o for o in decision.outputs)
        results.append(wrap(ops.empty(0, dtype=meta.dtype),
                            DTensorSpec(reference.mesh, placements, meta)))
    return results[0] if len(results) == 1 else tuple(results)


def _create_mixed_error(func: Any) -> RuntimeError:
    return RuntimeError(
        f"{func}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
        "before calling distributed operators! Please see "
        "https://docs.pytorch.org/docs/main/distributed.tensor.html#mixed-tensor-and-dtensor-"
        "operations for more details.")


def _finish_write(
    name: str, target: Tensor, result: Any, decision: _Decision, reference: DTensorSpec
) -> Tensor:
    """Return the written DTensor, with its new shape if the operator changes it."""
    if name in _RESHAPES_IN_PLACE and isinstance(result, Tensor):
        raise NotImplementedError(f"{name} on DTensors is not implemented in flambeau")
    return target
