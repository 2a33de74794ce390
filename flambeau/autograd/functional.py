"""Products with the Jacobian or Hessian of a function, and the matrices themselves.

All use reverse mode, except forward-mode Jacobians. jvp and hvp differentiate a vjp, which is
linear in its cotangent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..native.foundation.public_names import class_of
from ..tensor.tensor import Tensor, wrap
from .backward import Functions, grad
from .forward_ad import dual_level, make_dual, unpack_dual
from .function import Function
from .mode import enable_grad, is_grad_enabled, set_grad_enabled

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | tuple[Tensor, ...]
_OUTPUTS = "outputs of the user-provided function"

# Strict mode's errors for a missing gradient, and for one that doesn't depend on the inputs.
_MISSING = {
    "back": "The output of the user-provided function is independent of input {}. This is not "
    "allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {} in the "
    "grad_outputs when using the double backward trick to compute forward mode gradients. This "
    "is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {}. This "
    "is not allowed in strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {} "
    "in the grad_jacobian. This is not allowed in strict mode as it prevents from using the "
    "double backward trick to replace forward mode AD.",
}
_CONSTANT = {
    "outputs": "Output {} of the user-provided function does not require gradients. The outputs "
    "must be computed in a differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {} is independent of the inputs of the "
    "user-provided function. This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided "
    "function with respect to input {} is independent of the input. This is not allowed in "
    "strict mode. You should ensure that your function is twice differentiable and that the "
    "jacobian depends on the inputs (this would be violated by a linear function for example).",
    "hessian": "The hessian of the user-provided function with respect to input {} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your "
    "function is thrice differentiable and that the hessian depends on the inputs.",
}


def vjp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None,
    create_graph: bool = False, strict: bool = False,
) -> tuple[Any, Any]:
    """Return (func(inputs), v times its Jacobian); `v` has the shapes of the outputs.

    >>> torch.autograd.functional.vjp(lambda x: x**2, torch.tensor([1., 2.]), torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        call = _Call("vjp", func, inputs, create_graph, strict)
        if v is None and not _is_single(call.outputs):
            raise RuntimeError("The vector v can only be None if the user-provided function "
                               "returns a single Tensor with a single element.")
        cotangents = None if v is None else call.vectors(v, call.outputs, call.several_outputs)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        result = _compute_grad(call.outputs, call.inputs, cotangents, create_graph)
        product = _fill_missing(result, call.inputs, strict, create_graph, "back")
    return call.result(), call.finish(product, call.several_inputs)


def jvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None,
    create_graph: bool = False, strict: bool = False,
) -> tuple[Any, Any]:
    """Return (func(inputs), its Jacobian times v); `v` has the shapes of the inputs.

    >>> torch.autograd.functional.jvp(lambda x: x.sum() * x, torch.ones(2), torch.ones(2))
    (tensor([2., 2.]), tensor([4., 4.]))
    """
    with enable_grad():
        call = _Call("jvp", func, inputs, create_graph, strict, v)
        # Any cotangents work: the gradients are linear in them, and only the slope is needed.
        cotangents = _create_slots(call.outputs)
        gradients = _compute_grad(call.outputs, call.inputs, cotangents, True)
        _check_recorded(gradients, "grad_inputs", strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        result = _compute_grad(gradients, cotangents, call.v, create_graph)
        product = _fill_missing(result, call.outputs, strict, create_graph, "back_trick")
    return call.result(), call.finish(product, call.several_outputs)


def vhp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None,
    create_graph: bool = False, strict: bool = False,
) -> tuple[Any, Any]:
    """Return (func(inputs), v times its Hessian) for a scalar function.

    >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
    (tensor(2.), tensor([6., 6.]))
    """
    with enable_grad():
        call = _Call("vhp", func, inputs, create_graph, strict, v)
        gradients = call.gradient()
        _check_recorded(gradients, "jacobian", strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        result = _compute_grad(gradients, call.inputs, call.v, create_graph)
        product = _fill_missing(result, call.inputs, strict, create_graph, "double_back")
    return call.result(), call.finish(product, call.several_inputs)


def hvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None,
    create_graph: bool = False, strict: bool = False,
) -> tuple[Any, Any]:
    """Return (func(inputs), its Hessian times v). `vhp` is faster, and equal if it is symmetric.

    >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
    (tensor(2.), tensor([6., 6.]))
    """
    with enable_grad():
        call = _Call("hvp", func, inputs, create_graph, strict, v)
        gradients = call.gradient()
        _check_recorded(gradients, "jacobian", strict)
        cotangents = _create_slots(call.inputs)
        twice = _compute_grad(gradients, call.inputs, cotangents, True)
        _check_recorded(gradients, "hessian", strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        result = _compute_grad(twice, cotangents, call.v, create_graph)
        product = _fill_missing(result, call.inputs, strict, create_graph, "double_back_trick")
    return call.result(), call.finish(product, call.several_inputs)


def jacobian(
    func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian, shape (*output, *input); tuples for several outputs or inputs.

    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_strategy("jacobian", strategy, create_graph, strict, vectorize)
    if strategy == "forward-mode":
        return _compute_jacobian_forward(func, inputs)
    with enable_grad():
        call = _Call("jacobian", func, inputs, create_graph, strict)
        rows = tuple(_compute_rows(y, i, call, strict) for i, y in enumerate(call.outputs))
    if not create_graph:
        rows = tuple(tuple(x.detach() for x in row) for row in rows)
    result: tuple = rows if call.several_inputs else tuple(row[0] for row in rows)
    return result if call.several_outputs else result[0]


def _compute_jacobian_forward(func: Callable[..., Any], inputs: Tensors) -> Any:
    """Return the Jacobian by forward mode, with a tangent per element of each input."""
    several, points = _as_tensors(inputs, "inputs", "jacobian")
    # The function may be a gradient, whose inputs all require grad.
    points = tuple(x.detach().requires_grad_() for x in points)
    columns: list[list[tuple[Tensor, ...]]] = []
    plural = False
    for i, x in enumerate(points):
        columns.append([])
        for k in range(x.numel()):
            tangent = np.zeros(x._array.shape, x._array.dtype)
            tangent.reshape(-1)[k] = 1
            with dual_level():
                dual = make_dual(x, wrap(tangent))
                result = func(*points[:i], dual, *points[i + 1 :])
                plural, ys = _as_tensors(result, "outputs", "jacobian")
                pairs = [unpack_dual(y) for y in ys]
            columns[-1].append(tuple(
                _create_zeros(
                    y.primal
                ) if y.tangent is None else y.tangent.detach() for y in pairs))
    rows = tuple(
        tuple(
            wrap(np.stack([parts[j]._array for parts in column], -1)
                 .reshape((*column[0][j].shape, *x.shape)))
            for column, x in zip(columns, points, strict=True)
        )
        for j in range(len(columns[0][0]))
    )
    match: tuple = rows if several else tuple(row[0] for row in rows)
    return match if plural else match[0]


def _compute_rows(y: Tensor, index: int, call: _Call, strict: bool) -> tuple[Tensor, ...]:
    """Return one output's Jacobians with respect to each input, by a vjp per element."""
    columns: list[list[Tensor]] = [[] for _ in call.inputs]
    for i in range(y.numel()):
        result = _compute_row(y, i, call)
        for j, (column, x, g) in enumerate(zip(columns, call.inputs, result, strict=True)):
            if strict and g is None:
                raise RuntimeError(
                    f"Output {index} of the user-provided function is independent of input {j}. "
                    "This is not allowed in strict mode."
                )
            if strict and call.create_graph and g is not None and not g.requires_grad:
                raise RuntimeError(
                    "The jacobian of the user-provided function is independent of input "
                    f"{j}. This is not allowed in strict mode when create_graph=True."
                )
            column.append(_create_zeros(x) if g is None else g)
    return tuple(
        (_Stacked.apply(*column) if column else x.new_zeros((0, *x.shape)))
        .view((*y.shape, *x.shape))
        for column, x in zip(columns, call.inputs, strict=True)
    )


def _compute_row(y: Tensor, i: int, call: _Call) -> tuple[Tensor | None, ...]:
    """Return the vjp of one element of an output."""
    if y.__class__ is not Tensor:  # a subclass, whose cotangents must be of its class
        return _compute_grad((y.reshape(-1)[i],), call.inputs, None, call.create_graph, True)
    basis = np.zeros(y.numel(), y._array.dtype)
    basis[i] = 1
    return _compute_grad(
        (y,), call.inputs, (wrap(basis.reshape(y.shape)),), call.create_graph, True
    )


def hessian(
    func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a scalar function: shape (*input, *input), or tuples.

    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    several, points = _as_tensors(inputs, "inputs", "hessian")
    _check_strategy("hessian", outer_jacobian_strategy, create_graph, strict, vectorize)

    def gradient(*x: Tensor) -> Tensors:
        call = _Call("hessian", func, x, True, strict, alias=False)
        filled = _fill_missing(call.gradient(), call.inputs, False, True, "back")
        _check_recorded(filled, "jacobian", strict)
        return filled

    result = jacobian(gradient, points, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if several else result[0][0]


def _check_strategy(
    name: str, strategy: str, create_graph: bool, strict: bool, vectorize: bool
) -> None:
    """Raise for the combinations of options that PyTorch rejects."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strict and (vectorize or strategy == "forward-mode"):
        other = "vectorized=True" if vectorize else 'strategy="forward-mode"'
        raise RuntimeError(f"torch.autograd.functional.{name}: `strict=True` and `{other}` are "
                           "not supported together.")
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                f'torch.autograd.functional.{name}: `create_graph=True` and '
                '`strategy="forward-mode"` are not supported together (yet).'
            )
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
                "only implemented for `vectorize=True`."
            )


class _Call:
    """A recorded call of the user's function, with inputs and outputs as tuples of tensors."""

    def __init__(
        self, name: str, func: Callable[..., Any], inputs: Any, create_graph: bool,
        strict: bool, v: Any = None, alias: bool = True,
    ) -> None:
        self.name, self.create_graph = name, create_graph
        self.several_inputs, inputs = _as_tensors(inputs, "inputs", name)
        # Use new tensors, so that inputs the function also captures stay constant.
        self.inputs = tuple(_require_recorded(x, create_graph) for x in inputs) if alias else inputs
        self.v: tuple[Tensor, ...] | None = None
        if v is not None:
            self.v = self.vectors(v, self.inputs, self.several_inputs)
        elif name in ("jvp", "hvp", "vhp") and not _is_single(self.inputs):
            raise RuntimeError("The vector v can only be None if the input to the user-provided "
                               "function is a single Tensor with a single element.")
        self.several_outputs, self.outputs = _as_tensors(func(*self.inputs), _OUTPUTS, name)
        _check_recorded(self.outputs, "outputs", strict)

    def vectors(self, v: Any, templates: Sequence[Tensor], several: bool) -> tuple[Tensor, ...]:
        """Return `v` as a tuple of tensors. Raise RuntimeError unless shaped like `templates`."""
        supplied = tuple(
            x if self.create_graph and x.requires_grad else x.detach()
            for x in _as_tensors(v, "v", self.name)[1]
        )
        if len(templates) != len(supplied):
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(templates)} but got "
                f"{len(supplied)}."
                if several else "The given v should contain a single Tensor."
            )
        for i, (x, other) in enumerate(zip(supplied, templates, strict=True)):
            if x.shape != other.shape:
                entry = f"Entry {i} in " if several else ""
                raise RuntimeError(
                    f"{entry}v has invalid size: should be {other.shape} but got {x.shape}."
                )
        return supplied

    def gradient(self) -> tuple[Tensor | None, ...]:
        """Return the recorded gradient of the only output, which must have one element."""
        if self.several_outputs:
            raise RuntimeError(
                f"The function given to {self.name} should return a single Tensor"
            )
        if self.outputs[0].numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {self.name} should "
                               "contain a single element")
        return _compute_grad(self.outputs, self.inputs, None, True)

    def result(self) -> Any:
        """Return the outputs in the structure that the user's function returned."""
        return self.finish(self.outputs, self.several_outputs)

    def finish(self, tensors: tuple[Tensor, ...], several: bool) -> Any:
        """Detach tensors unless `create_graph`, and unwrap the tuple unless `several`."""
        result = tensors if self.create_graph else tuple(x.detach() for x in tensors)
        return result if several else result[0]


class _Stacked(Function):
    """Stack tensors of one shape along a new first axis."""

    @staticmethod
    def forward(ctx: Any, *rows: Tensor) -> Tensor:
        if any(x.__class__ is not Tensor for x in rows):
            return Functions.stack(rows)  # a subclass can't be built from its array alone
        return wrap(np.stack([x._array for x in rows]))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:
        return tuple(g[i] for i in range(len(g)))


def _as_tensors(values: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    several = isinstance(values, tuple)
    tensors = values if several else (values,)
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            subject = f"value at index {i}" if several else f"given {what}"
            raise TypeError(f"The {what} given to {name} must be either a Tensor or a tuple of "
                            f"Tensors but the {subject} has type {class_of(x)}.")
    return several, tensors


def _require_recorded(x: Tensor, create_graph: bool) -> Tensor:
    if create_graph and x.requires_grad:
        return x.view_as(x)
    return x.detach().requires_grad_(True)


def _is_single(tensors: Sequence[Tensor]) -> bool:
    return len(tensors) == 1 and tensors[0].numel() == 1


def _create_zeros(templates: Tensor) -> Tensor:
    return templates.detach().new_zeros(templates.shape)


def _create_slots(templates: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return zeros shaped like `templates`, as leaves to differentiate with respect to."""
    return tuple(_create_zeros(x).requires_grad_(True) for x in templates)


def _compute_grad(
    outputs: Sequence[Tensor | None], inputs: tuple[Tensor, ...],
    cotangents: Sequence[Tensor] | None, create_graph: bool, retain: bool | None = None,
) -> tuple[Tensor | None, ...]:
    """autograd.grad of the outputs that have a history; None for inputs without influence."""
    gradients = cotangents if cotangents is not None else (None,) * len(outputs)
    pairs = [
        (y, g) for y, g in zip(outputs, gradients, strict=True) if y is not None and y.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    ys, gs = zip(*pairs, strict=True)
    return grad(ys, inputs, gs, retain, create_graph, allow_unused=True)


def _check_recorded(tensors: Sequence[Tensor | None], what: str, strict: bool) -> None:
    """In strict mode, raise RuntimeError if a tensor doesn't depend on the inputs."""
    for i, x in enumerate(tensors if strict else ()):
        if x is None:
            raise RuntimeError(_MISSING["back"].format(i))
        if not x.requires_grad:
            raise RuntimeError(_CONSTANT[what].format(i))


def _fill_missing(
    result: Sequence[Tensor | None], templates: Sequence[Tensor], strict: bool, create_graph: bool,
    stage: str,
) -> tuple[Tensor, ...]:
    """Replace missing gradients by zeros; in strict mode, raise RuntimeError instead."""
    new = []
    for i, (g, x) in enumerate(zip(result, templates, strict=True)):
        if g is None and strict:
            raise RuntimeError(_MISSING[stage].format(i))
        if g is not None and strict and create_graph and not g.requires_grad:
            matrix = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {matrix} of the user-provided function is independent of input {i}. This is "
                "not allowed in strict mode when create_graph=True."
            )
        new.append(_create_zeros(x) if g is None else g)
    return tuple(new)


def _construct_standard_basis_for(
    tensors: tuple[Tensor, ...], tensor_numels: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """Return the identity matrix over all elements, its columns divided among the tensors."""
    if len(tensors) != len(tensor_numels):
        raise AssertionError(
            "Expected tensors and tensor_numels to have the same length, "
            f"but got {len(tensors)} and {len(tensor_numels)}"
        )
    if not tensors:
        raise AssertionError("Expected at least one tensor")
    parts, row = [], 0
    for tensor, count in zip(tensors, tensor_numels, strict=True):
        part = tensor.new_zeros(sum(tensor_numels), count)
        part.diagonal(-row).fill_(1)
        parts.append(part)
        row += count
    return tuple(parts)
