"""`backward` and `grad`: check arguments, run the engine and return or accumulate gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..native.foundation.public_names import c_class_name
from ..native.foundation.user_frames import warn
from ..native.foundation.user_frames import add_notes
from ..tensor.dtypes import FLOAT32
from ..tensor.meta import MetaArray
from ..tensor.tensor import Tensor, attach, wrap
from ..tensor.windows.view_origins import is_unrecorded
from .engine import make_target_key, run
from .gradient_edge import GradientEdge, find_target, needs_gradient
from .hooks import register_hook, register_post_accumulate_grad_hook, retain_grad
from .mode import MODE, enable_grad
from .tangents import drop_tangents


def _as_tuple(x: Any) -> tuple:
    if x is None:
        return ()
    return (x,) if isinstance(x, (Tensor, GradientEdge)) else tuple(x)


def _find_root(y: Any, g: Tensor | None) -> tuple[Any, Tensor]:
    """Return (target, cotangent) from which backward starts for one tensor or edge."""
    if isinstance(y, GradientEdge):
        return _create_root_at_edge(y, g)
    if not y.requires_grad:
        from .errors.missing_graph import explain_missing_graph

        raise add_notes(
            RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn"),
            explain_missing_graph(y),
        )
    if g is None:
        if y._array.size != 1:
            error = RuntimeError("grad can be implicitly created only for scalar outputs")
            error.add_note(f"The output has the shape {tuple(y.shape)}: reduce it first.")
            raise error
        if y._array.dtype.kind == "c":
            raise RuntimeError(
                "grad can be implicitly created only for real scalar outputs but got "
                f"{y.dtype}"
            )
        g = create_ones(y)
    elif not isinstance(g, Tensor):
        raise TypeError(
            f"gradients can be either Tensors or None, but got {type(g).__name__}"
        )
    elif g._array.shape != y._array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {g.shape} and output[0] has a "
            f"shape of {y.shape}."
        )
    elif (g._array.dtype.kind == "c") != (y._array.dtype.kind == "c"):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same "
            f"dtype. Mismatch in dtype: grad_output[0] has a dtype of {g.dtype} and output[0] "
            f"has a dtype of {y.dtype}."
        )
    if g._array.dtype != y._array.dtype:
        g = g.to(y.dtype)
    return y._history() or y, g


def create_ones(y: Tensor) -> Tensor:
    """Return the cotangent from which the backward pass of a single element starts."""
    array = y._array
    if y.__class__ is not Tensor or array.__class__ is MetaArray:
        return Functions.ones_like(y.detach())
    is_usual = not array.ndim and array.dtype is FLOAT32
    return wrap(_ONE.copy() if is_usual else np.ones(array.shape, array.dtype))


def _create_root_at_edge(edge: GradientEdge, g: Tensor | None) -> tuple[Any, Tensor]:
    if edge.passed is not None:  # known shape and dtype: check like a tensor of these
        stand_in = wrap(np.empty(*edge.passed))
        stand_in._requires_grad = True
        _, g = _find_root(stand_in, g)
    elif g is None:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    return find_target(edge), g


def _list_roots(tensors: tuple, grads: Any) -> list[tuple[Any, Tensor]]:
    gradients = _as_tuple(grads) if grads is not None else (None,) * len(tensors)
    if len(gradients) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(gradients)} gradients")
    return [_find_root(y, g) for y, g in zip(tensors, gradients, strict=True)]


def backward(
    tensors: Tensor | Sequence[Tensor], grad_tensors: Any = None,
    retain_graph: bool | None = None, create_graph: bool = False, grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    `grad_tensors` are the cotangents, optional for scalars. `inputs` restricts which tensors get
    gradients; `create_graph` records the backward pass itself.

    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> torch.autograd.backward([x * 3], [torch.tensor([1., 10.])])
    >>> x.grad
    tensor([ 3., 30.])
    """
    if MODE.transforms:
        raise _create_transform_error()
    outputs = _as_tuple(tensors)
    roots = _list_roots(outputs, grad_tensors if grad_tensors is not None else grad_variables)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run(roots, retain, create_graph)
        return
    into = _as_tuple(inputs)
    if not into:
        raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    for x in into:
        if not needs_gradient(x):
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        if isinstance(x, Tensor):
            retain_grad(x)
    captures = {make_target_key(find_target(x)): i for i, x in enumerate(into)}
    run(roots, retain, create_graph, captures, accumulate=True)


def _create_transform_error() -> RuntimeError:
    return add_notes(
        RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        ),
        "torch.func.grad and torch.autograd.grad return gradients instead of accumulating them.",
    )


def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `outputs` with respect to `inputs`, without accumulating.

    >>> x = torch.tensor(3., requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    if is_grads_batched:
        return _differentiate_batch(outputs, inputs, grad_outputs, create_graph, allow_unused)
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    into = _as_tuple(inputs)
    if not into:
        raise RuntimeError("grad requires non-empty inputs.")
    for x in into:
        if not isinstance(x, (Tensor, GradientEdge)):
            raise TypeError(f"inputs must be tensors, but got {type(x).__name__}")
        if not needs_gradient(x):
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    roots = _list_roots(_as_tuple(outputs), grad_outputs)
    targets = [find_target(x) for x in into]
    keys = [make_target_key(target) for target in targets]
    retain = create_graph if retain_graph is None else retain_graph
    captured = run(roots, retain, create_graph, {k: i for i, k in enumerate(keys)}, False)
    return tuple(
        _finish_gradient(captured.get(k), into[i], i, allow_unused, materialize_grads, create_graph)
        for i, k in enumerate(keys)
    )


def partial_grad(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor],
    create_graph: bool = False,
) -> list[Tensor | None]:
    """Return the gradients with respect to inputs that are treated as independent.

    `grad` returns total derivatives: if one input was computed from another, the gradient of the
    latter includes paths through the former. The graph is retained.
    """
    roots = _list_roots(tuple(outputs), grad_outputs)
    keys = [make_target_key(x._history() or x) for x in inputs]
    captures = {key: i for i, key in enumerate(keys)}
    captured = run(roots, True, create_graph, captures, False, True)
    return [captured.get(key) for key in keys]


def _create_leaf(x: Tensor) -> Tensor:
    """Return `x` as a leaf; `requires_grad_` would refuse it within a transform."""
    leaf: Tensor = x.detach()
    leaf._requires_grad = leaf._tracked = True
    return leaf


def compute_differentiable_adjoint(
    forward: Callable[..., tuple], inputs: Sequence[Tensor | None], gs: Sequence[Tensor | None],
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    """Return the cotangents of `inputs` as recorded values, for second derivatives.

    An input without history, such as an example that a vmap takes out of its batch, becomes a leaf.
    """
    views = [None if x is None else x.view_as(x) if x.requires_grad or not need
             else _create_leaf(x) for x, need in zip(inputs, needs, strict=True)]
    ys = forward(*views)
    pairs = [(y, g) for y, g in zip(ys, gs, strict=False) if g is not None and y.requires_grad]
    primals: Any = [x for x, need in zip(views, needs, strict=True) if need]
    actual = iter(grad([y for y, _ in pairs], primals, [g for _, g in pairs], create_graph=True,
                       allow_unused=True))
    return tuple(next(actual) if need else None for need in needs)


def compute_adjoint_by_operators(
    forward: Callable[..., tuple], inputs: Sequence[Tensor | None], gs: Sequence[Tensor | None],
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    """Return the cotangents of `inputs`, of an operator that is recorded as one: `forward` computes
    it in recorded operators. The cotangents are recorded where derivatives of them are wanted."""
    if MODE.grad:
        return compute_differentiable_adjoint(forward, inputs, gs, needs)
    plain = [None if x is None else x.detach() for x in inputs]
    with enable_grad():
        parts = compute_differentiable_adjoint(forward, plain, gs, needs)
    return tuple([None if part is None else part.detach() for part in parts])


def _finish_gradient(
    g: Tensor | None, x: Any, index: int, allow_unused: bool | None, zeros: bool,
    create_graph: bool,
) -> Tensor | None:
    if g is not None:
        return g
    if zeros:
        if isinstance(x, GradientEdge):
            raise RuntimeError(
                "materialize_grads cannot be used when the given input is a GradientEdge"
            )
        result: Tensor = x.detach().new_zeros(x.shape)
        return require_gradients(result, create_graph)
    if not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {index} appears to not have been used in the "
            "graph. Set allow_unused=True if this is the desired behavior."
        )
    return None


class Batched:
    """vmap that allows None results; set by the layer of function transforms."""

    vmap: Callable[[Callable], Callable]


class Functions:
    """Functions of torch that build tensors of subclasses, set by the operators' layer."""

    stack: Callable[[Sequence[Tensor]], Tensor]
    ones_like: Callable[[Tensor], Tensor]


def _differentiate_batch(
    outputs: Any, inputs: Any, grad_outputs: Any, create_graph: bool, allow_unused: Any
) -> tuple[Tensor | None, ...]:
    """Return the stacked gradients for each row of the cotangents: all at once by vmap, or one by
    one if vmap fails, `create_graph` is set, or a cotangent is of a subclass."""
    rows = _as_tuple(grad_outputs)
    for y, g in zip(_as_tuple(outputs), rows, strict=True):
        if isinstance(y, Tensor) and g._array.shape[1:] != y._array.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                f"match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[0] has a shape of {g.shape} and output[0] has a shape of {y.shape}. "
                "If you only want some tensors in `grad_output` to be considered batched, consider "
                "using vmap."
            )
    if not create_graph and all(g.__class__ is Tensor for g in rows):
        rows = tuple([g if g._array.dtype == y._array.dtype or not isinstance(y, Tensor)
                      else g.to(y.dtype) for y, g in zip(_as_tuple(outputs), rows, strict=True)])

        def of_example(*gs: Tensor) -> tuple[Tensor | None, ...]:
            return grad(outputs, inputs, gs, True, allow_unused=allow_unused)

        try:
            batched: tuple[Tensor | None, ...] = Batched.vmap(of_example)(*rows)
            return batched
        except RuntimeError as error:
            if not str(error).startswith("vmap"):
                raise
    result = [
        grad(outputs, inputs, tuple(g[i] for g in rows), True, create_graph,
             allow_unused=allow_unused)
        for i in range(len(rows[0]))
    ]
    return tuple(None if gs[0] is None else Functions.stack(gs) for gs in zip(*result, strict=True))


# ------------------------------------------------------------------------ tensor methods

_ONE = np.ones((), FLOAT32)


def _tensor_backward(
    self: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Any = None,
) -> None:
    """Add this tensor's gradients to the `.grad` of the leaves it was computed from.

    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> (x ** 2).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    if inputs is None and not MODE.transforms:
        is_usual = gradient is None and self.__class__ is Tensor and self._requires_grad \
            and self._array.dtype is FLOAT32 and self._array.size == 1 \
            and self._base is None and self._array.__class__ is not MetaArray
        # No variable keeps the root, whose cotangent dies with the call.
        run(((self._node or self, create_ones(self)) if is_usual else _find_root(self, gradient),),
            create_graph if retain_graph is None else retain_graph, create_graph)
    else:
        backward(self, gradient, retain_graph, create_graph, None, inputs)


def _requires_grad(self: Tensor) -> bool:
    base = self._base
    if base is not None and base._node is not self._stamp:
        if self._node is None and is_unrecorded(self._stamp):
            return self._requires_grad or base._requires_grad
        self._reattach()
    return self._requires_grad


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if value is not True and value is not False:
        raise RuntimeError("requires_grad must be a bool")
    require_gradients(self, value)


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set whether gradients are accumulated here; only a leaf can turn it off.

    Raises RuntimeError in a function that a transform of torch.func runs.

    >>> torch.ones(2).requires_grad_()
    tensor([1., 1.], requires_grad=True)
    """
    if MODE.transforms:
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() (or perhaps using "
            "torch.autograd.functional.* APIs) inside of a function being transformed by a "
            "functorch transform. This is unsupported, please attempt to use the functorch "
            "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() "
            "outside of a function being transformed instead.")
    if requires_grad is not True and requires_grad is not False:
        raise TypeError("requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                        f"{c_class_name(requires_grad)}")
    return require_gradients(self, requires_grad)


def require_gradients(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Do what `requires_grad_` does, also within transforms."""
    value = bool(requires_grad)
    if self._history() is not None:
        if not value:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        return self
    if value and self._array.dtype.kind not in "fcV":
        error = RuntimeError("only Tensors of floating point dtype can require gradients")
        error.add_note(f"This one is of dtype {self.dtype}.")
        raise error
    self._requires_grad = value
    self._tracked = value or self._base is not None
    return self


require_gradients.__name__ = "requires_grad_"  # as graphs show it


def detach(self: Tensor) -> Tensor:
    """Return a tensor with the same memory and version counter, outside the graph.

    >>> x = torch.ones(2, requires_grad=True)
    >>> y = (x * 2).detach()
    >>> y.requires_grad, x.detach().data_ptr() == x.data_ptr()
    (False, True)
    """
    return self._alias()


def detach_(self: Tensor) -> Tensor:
    """Remove this tensor from the graph, making it a leaf.

    >>> y = (torch.ones(2, requires_grad=True) * 2).detach_()
    >>> y.is_leaf, y.requires_grad
    (True, False)
    """
    if self._base is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
            "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
            "function in torch/optim/optimizer.py as the solution."
        )
    self._node = None
    self._requires_grad = self._tracked = False
    drop_tangents(self)
    return self


def _keep_requires_grad(self: Tensor) -> NoReturn:
    raise RuntimeError("requires_grad must be a bool")


def _keep_grad_fn(self: Tensor) -> NoReturn:
    raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")


def _keep_hooks(self: Tensor) -> NoReturn:
    raise RuntimeError("Deletion of _backwards_hooks not allowed!")


def _read_hooks(self: Tensor) -> Any:
    return self.__dict__.get("_backward_hooks")


def _set_hooks(self: Tensor, hooks: Any) -> None:
    self.__dict__["_backward_hooks"] = hooks


attach(
    backward=_tensor_backward,
    requires_grad=property(_requires_grad, _set_requires_grad, _keep_requires_grad),
    _grad_fn=property(lambda self: self.grad_fn, None, _keep_grad_fn),
    _backward_hooks=property(_read_hooks, _set_hooks, _keep_hooks),
    requires_grad_=requires_grad_,
    detach=detach,
    detach_=detach_,
    register_hook=register_hook,
    register_post_accumulate_grad_hook=register_post_accumulate_grad_hook,
    retain_grad=retain_grad,
    retains_grad=property(lambda self: bool(self.__dict__.get("_retained"))),
)
