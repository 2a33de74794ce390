"""Function: a custom operator with its own forward and backward.

`MyFunction.apply(*args)` runs `forward` unrecorded and attaches a node to the results that calls
the user's `backward`, which is recorded if higher derivatives are requested.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..native.foundation.public_names import class_of
from ..native.foundation.user_frames import warn
from ..tensor.capture_marks import shape_only
from ..tensor.storage import get_version
from ..tensor.tensor import Tensor, view_of, wrap
from ..tensor.windows.batch import find_innermost_batch
from .checks.jvp_results import JvpCheck
from .errors.graph_errors import raise_freed
from .inplace import bump, check_writable, forbid_writes, rebase
from .mode import MODE, below_transforms
from .node import Node
from .outputs import Output
from .saved.plan import Plan
from .saved.values import SavedOutput, read_saved_value
from .tangents import LEVELS, find_innermost_level, get_primal, get_tangent
from .tape import create_node, pack, requires
from .unbroadcast import unbroadcast


# Attributes that a context forwards to its node; every other name belongs to the user.
_OF_NODE = frozenset((
    "metadata", "name", "next_functions", "register_hook", "register_prehook", "_sequence_nr",
))


class FunctionCtx:
    """State shared by `forward` and `backward`: saved tensors and the user's attributes.

    It is separate from the node, so the user cannot overwrite the node's attributes; `grad_fn`
    exposes both.
    """

    needs_input_grad: tuple[bool, ...]
    _flambeau_node: weakref.ref[BackwardFunction]

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors of `save_for_backward`, checked for changes; within `jvp`, those of
        `save_for_forward`."""
        if "_flambeau_pushing" in self.__dict__:
            return self.__dict__.get("saved_for_forward", ())
        node = self._flambeau_node()
        assert node is not None
        return node.saved_tensors

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """Deprecated name of `saved_tensors`."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    def __getattr__(self, name: str) -> Any:
        if name in _OF_NODE:
            return getattr(self._flambeau_node(), name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs or outputs) for backward, with version checks."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for forward-mode differentiation."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Declare which inputs were written in place."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Declare which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether missing gradients arrive as zeros (the default) or as None."""
        self.materialize_grads = value


def is_in_use(context: FunctionCtx) -> bool:
    """Whether a program may have stored something in a custom function's context."""
    return bool(context.__dict__.keys() - {"needs_input_grad", "_flambeau_node"})


class BackwardCFunction(FunctionCtx):
    """The class of Functions' contexts under PyTorch's name, for isinstance checks."""


class BackwardFunction(Node):
    """The node of a custom Function; its methods receive `context`."""

    operator = None
    is_custom = True
    context: FunctionCtx
    _function: type[Function]
    _inputs: tuple[tuple[tuple[int, ...], np.dtype] | None, ...]
    _outputs: tuple[tuple[tuple[int, ...], np.dtype] | None, ...]

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors of `save_for_backward`, checked for changes."""
        if self.saved is None:
            raise_freed(self)
        return tuple(
            v if n is None else read_saved_value(self, v, n)
            for v, n in zip(self.saved, self.versions, strict=True)
        )

    def apply(self, g: Any) -> Sequence[Any]:
        grads = g if isinstance(g, tuple) else (g,)
        if self.context.__dict__.get("materialize_grads", True):
            grads = tuple(
                _zeros(meta) if grad is None and meta is not None else grad
                for grad, meta in zip(grads, self._outputs, strict=True)
            )
        backward = self._function.backward
        if backward is Function.backward:
            backward = self._function.vjp
        elif self._function.vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                "should only implement one of them."
            )
        result = backward(self.context, *grads)
        gradients = result if isinstance(result, tuple) else (result,)
        return self._select_edges(gradients)

    def _select_edges(self, gradients: tuple) -> list[Any]:
        limit = len(self._inputs)
        if len(gradients) > limit and all(y is None for y in gradients[limit:]):
            gradients = gradients[:limit]
        if len(gradients) != limit:
            raise RuntimeError(
                f"function {type(self).__name__} returned an incorrect number of gradients "
                f"(expected {limit}, got {len(gradients)})"
            )
        return [
            _check_gradient(y, self._inputs[i], type(self).__name__, i)
            for i, y in enumerate(gradients) if self.context.needs_input_grad[i]
        ]

    def _all_edges(self) -> list[Any]:
        edges = iter(self.edges)
        return [
            next(edges) if needed else None
            for needed, kind in zip(self.context.needs_input_grad, self._inputs, strict=True)
            if kind is not None
        ]

    def release(self) -> None:
        if self.saved:
            self.saved = None

    def __getattr__(self, name: str) -> Any:
        context = self.__dict__.get("context")
        if context is not None and name in context.__dict__:
            return context.__dict__[name]
        return super().__getattr__(name)


@shape_only
def _zeros(like: Any) -> Tensor:
    shape, dtype = like
    return wrap(np.zeros(shape, dtype))


def _check_gradient(y: Any, meta: Any, name: str, index: int) -> Any:
    """Convert a user's gradient to its input's shape and dtype; RuntimeError if impossible."""
    if y is None or meta is None:
        return None
    if not isinstance(y, Tensor):
        raise RuntimeError(
            f"expected Variable or None (got {type(y).__name__}) from the backward of {name}"
        )
    shape, dtype = meta
    if y._array.shape != shape:
        try:
            y = y.sum_to_size(shape)
        except RuntimeError:
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {index} - got "
                f"{list(y.shape)} but expected shape compatible with {list(shape)}"
            ) from None
    if y._array.dtype != dtype:
        y = unbroadcast(y, shape, dtype)
    return y


class _FunctionMeta(type):
    _backward_cls: type[BackwardFunction]
    _flambeau_plan: Plan[BackwardFunction]
    _flambeau_transformed_plan: Plan[BackwardFunction]

    def __init__(cls, name: str, bases: tuple, attributes: dict[str, Any]) -> None:
        super().__init__(name, bases, attributes)
        cls._backward_cls, cls._flambeau_plan = cls._flambeau_create_plan(name + "Backward")
        # Of the nodes within a transform that takes gradients: a Function that PyTorch generates.
        cls._flambeau_transformed_plan = cls._flambeau_create_plan(name + "GeneratedBackward")[1]

    def _flambeau_create_plan(cls, name: str) -> tuple[type[BackwardFunction], Plan[Any]]:
        """Return a new class of the Function's nodes and its plan."""
        node_class = type(
            name, (BackwardFunction,), {"_function": cls, "__module__": "torch.autograd.function"})
        return node_class, Plan(node_class, (), (), (), False)


# What applies a Function to tensors on values of their own, by class; filled on import of nested.
NESTED_APPLY: dict[type, Callable[[Any, tuple], Any]] = {}


class Function(metaclass=_FunctionMeta):
    """Base of custom operators: define static forward(ctx, ...) and backward(ctx, *grads), and call
    `apply`.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = torch.ones(1, requires_grad=True)
    >>> Double.apply(x).backward(); x.grad
    tensor([2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{class_of(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise RuntimeError: functions are applied through their class."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    generate_vmap_rule = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result from ctx and the arguments, or without ctx if setup_context is
        defined."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs, if `forward` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradients of the inputs, given those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangents of the outputs, given those of the inputs, for forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Return the outputs of all examples and their batch axes. With `generate_vmap_rule`, in
        place of this, flambeau runs `forward` on examples."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the function on the arguments and record it. Keywords name arguments of a `forward`
        that has a `setup_context`."""
        if kwargs:
            args = cls._flambeau_positional(args, kwargs)
        for base, apply_on_values in NESTED_APPLY.items():
            if any(isinstance(a, base) for a in args):
                return apply_on_values(cls, args)
        if MODE.transforms and cls.setup_context is Function.setup_context \
                and not cls.__module__.startswith("flambeau."):
            raise RuntimeError(
                "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
                "jacrev, ...), it must override the setup_context staticmethod. For more details, "
                "please see https://pytorch.org/docs/main/notes/extending.func.html")
        if LEVELS.active and (level := find_innermost_level(args)) is not None:
            return cls._flambeau_push(level, args)
        return cls._flambeau_apply(args)[1]

    @classmethod
    def _flambeau_positional(cls, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Return the arguments without keywords; TypeError if some have to stay keywords."""
        if cls.setup_context is Function.setup_context:
            raise TypeError("apply() takes no keyword arguments")
        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        if not bound.kwargs:
            return bound.args
        if find_innermost_batch((*bound.args, *bound.kwargs.values())) is not None:
            raise NotImplementedError(
                "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass "
                f"kwarg-only Tensors to autograd.Function. Got: {bound.kwargs}")
        name = next(iter(bound.kwargs))
        raise TypeError(f"forward() got an unexpected keyword argument '{name}'")

    @classmethod
    def _flambeau_push(cls, level: int, args: tuple) -> Any:
        """Run the function on the primals and `jvp` on the tangents of a level; return duals."""
        primals = tuple(get_primal(a, level) if isinstance(a, Tensor) else a for a in args)
        context, result = cls._flambeau_primal(primals)
        tangents = [get_tangent(a, level) if isinstance(a, Tensor) else None for a in args]
        versions = [None if t is None else get_version(t) for t in tangents]
        supplied: Sequence[Any] = tangents
        if context.__dict__.get("materialize_grads", True):
            supplied = [wrap(np.zeros_like(a._array)) if t is None and isinstance(a, Tensor)
                        and a._array.dtype.kind in "fc" else t
                        for a, t in zip(args, tangents, strict=True)]
        context.__dict__["_flambeau_pushing"] = True
        pushed = cls.jvp(context, *supplied)
        del context.__dict__["_flambeau_pushing"]
        several = isinstance(result, tuple)
        outputs = result if several else (result,)
        check = JvpCheck(context, primals, tangents, versions)
        duals = [check.as_dual(y, t, level, args) for y, t in
                 zip(outputs, check.one_per_output(pushed, outputs), strict=True)]
        return tuple(duals) if several else duals[0]

    @classmethod
    def _flambeau_primal(cls, primals: tuple) -> tuple[FunctionCtx, Any]:
        """Run the function without the tangents of a level, which its `jvp` pushes; return
        (context, result). At outer levels the function's own `jvp` pushes them as well."""
        if find_innermost_level(primals) is None or cls.setup_context is Function.setup_context:
            return cls._flambeau_apply(primals)
        result = cls.apply(*primals)
        context = BackwardCFunction()
        context.needs_input_grad = tuple(isinstance(a, Tensor) and requires(a) for a in primals)
        cls.setup_context(context, primals, result)
        return context, result

    @classmethod
    def _flambeau_apply(cls, args: tuple) -> tuple[FunctionCtx, Any]:
        """Run and record the function; return (context, result)."""
        needs = tuple(isinstance(a, Tensor) and a._tracked and requires(a) for a in args)
        recorded = MODE.grad and any(needs) and not MODE.exporting
        pairs = zip(args, needs, strict=True)
        edges = tuple(a._node or a for a, n in pairs if n) if recorded else ()
        plan = cls._flambeau_transformed_plan if MODE.transforms \
            and MODE.differentiating == MODE.transforms else cls._flambeau_plan
        node = create_node(plan, edges, (), (), None)
        node.context = BackwardCFunction()
        node.context._flambeau_node = weakref.ref(node)
        node.context.needs_input_grad = needs
        with_grad, MODE.grad = MODE.grad, MODE.grad and MODE.exporting
        pushes = LEVELS.enabled
        LEVELS.enabled = pushes and bool(LEVELS.active) and find_innermost_level(args) is not None
        try:
            result = cls._flambeau_run(node.context, args)
        finally:
            MODE.grad, LEVELS.enabled = with_grad, pushes
        several = isinstance(result, (tuple, list))
        outputs = tuple(result) if several else (result,)
        if recorded:
            node._inputs = tuple(
                (a._array.shape, a._array.dtype) if isinstance(a, Tensor) else None for a in args
            )
            outputs = _attach_outputs(node, args, outputs)
        else:
            outputs = _protect_views(node.context, args, outputs)
        if several:
            return node.context, list(outputs) if isinstance(result, list) else outputs
        return node.context, outputs[0]

    @classmethod
    def _flambeau_run(cls, context: FunctionCtx, args: tuple) -> Any:
        if cls.setup_context is Function.setup_context:
            return cls.forward(context, *args)
        if cls.forward.__defaults__:
            args = _bind_defaults(cls.forward, args)
        with below_transforms(MODE.transforms):
            result = cls.forward(*args)
        cls.setup_context(context, args, result)
        _refuse_saved_inputs(context, args, result)
        return result


def _refuse_saved_inputs(context: FunctionCtx, args: tuple, result: Any) -> None:
    """Raise RuntimeError if an argument is returned as it is and saved: callers get a view of it,
    but the saved one would be the argument, without the Function's node."""
    attributes = context.__dict__
    saved = (*(attributes.get("to_save") or ()), *(attributes.get("saved_for_forward") or ()))
    if not saved:
        return
    dirty = {id(t) for t in attributes.get("dirty_tensors", ())}
    outputs = {id(y) for y in (result if isinstance(result, (tuple, list)) else (result,))}
    returned = {id(x) for x in args if isinstance(x, Tensor) and id(x) in outputs} - dirty
    if any(id(t) in returned for t in saved):
        raise RuntimeError(
            "An input that has been returned as-is as output is being saved for backward. This is "
            "not supported if you override setup_context. You should return and save a view of "
            "the input instead, e.g. with x.view_as(x) or setup ctx inside the forward function "
            "itself.")


def _bind_defaults(forward: Callable, args: tuple) -> tuple:
    """Return a call's arguments with defaults filled in, for setup_context."""
    bound = inspect.signature(forward).bind(*args)
    bound.apply_defaults()
    return bound.args


class InplaceFunction(Function):
    """Legacy base class; equivalent to `Function`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _alias_input(y: Tensor) -> Tensor:
    """Return a view of an input that is also an output, made by its class if that overrides."""
    if y.__class__ is Tensor or not overrides(y.__class__):
        return view_of(y, y._array)
    with_grad, MODE.grad = MODE.grad, False
    try:
        view: Tensor = y.view_as(y)
        return view
    finally:
        MODE.grad = with_grad


def overrides(cls: type) -> bool:
    """Return whether a class overrides `__torch_function__`."""
    return getattr(cls, "__torch_function__", None) is not getattr(
        Tensor, "__torch_function__", None)


def _protect_views(context: FunctionCtx, args: tuple, outputs: tuple) -> tuple:
    """Return the outputs of an unrecorded call; recorded writes to views among them will raise."""
    dirty, input_ids = _find_dirty(context, args, outputs)
    result = []
    for y in outputs:
        if isinstance(y, Tensor) and y._array.__class__ is np.ndarray and id(y) not in dirty:
            if id(y) in input_ids:
                y = _alias_input(y)
            if y._base is not None:
                forbid_writes(y)
        result.append(y)
    return tuple(result)


def _find_dirty(context: FunctionCtx, args: tuple, outputs: tuple) -> tuple[set[int], set[int]]:
    """Return the ids of the tensors marked dirty, and of the arguments. Raise RuntimeError if a
    marked tensor is not returned."""
    marked = context.__dict__.get("dirty_tensors", ())
    input_ids = {id(a) for a in args if isinstance(a, Tensor)}
    if marked:
        returned = {id(y) for y in outputs}
        if any(id(t) not in returned for t in marked):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
        if any(id(t) not in input_ids for t in marked):
            warn("ctx.mark_dirty() received a tensor that was not an input. Only input Tensors "
                 "that have been mutated should be passed to ctx.mark_dirty().", UserWarning)
    return {id(t) for t in marked}, input_ids


def _attach_outputs(node: Any, args: tuple, outputs: tuple) -> tuple:
    """Attach the node to the outputs, and save the tensors of `save_for_backward`."""
    attributes = node.context.__dict__
    constant = {id(t) for t in attributes.get("non_differentiable", ())}
    dirty, input_ids = _find_dirty(node.context, args, outputs)
    materialized = attributes.get("_materialize_non_diff_grads", True)
    result, meta = [], []
    several = len(outputs) > 1
    node.outputs = len(outputs)
    for i, y in enumerate(outputs):
        zeros = isinstance(y, Tensor) and (materialized or id(y) not in constant)
        meta.append((y._array.shape, y._array.dtype) if zeros else None)
        result.append(_attach_output(node, y, i if several else None, constant, dirty, input_ids))
    node._outputs = tuple(meta)
    saved, versions = [], []
    # An argument that is returned as it is stays an input: callers get a view of it.
    fresh = {id(y): (m, i) for i, (y, m) in enumerate(zip(outputs, result, strict=True))
             if id(y) not in input_ids or id(y) in dirty}
    for t in attributes.pop("to_save", ()):
        value, version = _describe_saved(t, fresh, several)
        saved.append(value)
        versions.append(version)
    node.saved, node.versions = tuple(saved), tuple(versions)
    return tuple(result)


def _describe_saved(t: Any, fresh: dict[int, tuple[Any, int]], several: bool) -> tuple[Any, Any]:
    if not isinstance(t, Tensor):
        return t, None
    if id(t) in fresh and fresh[id(t)][0]._node is not None:
        y, index = fresh[id(t)]
        return SavedOutput(y, index if several else None), 0
    if MODE.saved_hooks:
        return pack(t), 0
    return t, get_version(t)


def _attach_output(
    node: Any, y: Any, index: int | None, constant: set, dirty: set, input_ids: set
) -> Any:
    if not isinstance(y, Tensor) or id(y) in constant or y._array.dtype.kind not in "fcV":
        return y
    target = node if index is None else Output(node, index)
    if id(y) in dirty:
        if y._base is not None and index is not None:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another Tensor, your "
                "Function cannot return more than one Tensor. This is not supported by the current "
                "autograd engine. You should either make sure the input is not a view (using "
                ".clone() for example) or make your Function only return one Tensor (potentially "
                "splitting it into two Functions: one doing the inplace that returns a single "
                "Tensor and a second one that does the other operations). You can ask on the forum "
                "https://discuss.pytorch.org/ if you need help to do this change."
            )
        check_writable(y, node.name())
        bump(y)
        rebase(y, target)
        return y
    if id(y) in input_ids:  # an input returned unchanged: make a view
        y = _alias_input(y)
    if y._base is not None:
        y._stamp = y._base._node  # recorded, although grad was off where the view was made
    y._node = target
    y._requires_grad = y._tracked = True
    return y


def once_differentiable(function: Callable) -> Callable:
    """Decorate a `backward` that must not be differentiated itself."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with_grad, MODE.grad = MODE.grad, False
        try:
            outputs = function(ctx, *args)
        finally:
            MODE.grad = with_grad
        if not MODE.grad or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        leaves = [None if y is None else _create_leaf(y) for y in results]
        result = _Once.apply(*leaves)
        return result if isinstance(outputs, tuple) else result[0]

    return wrapper


def _create_leaf(y: Tensor) -> Tensor:
    leaf = y.detach()
    leaf.requires_grad = True
    return leaf


class _Once(Function):
    """Identity whose backward raises RuntimeError; its inputs are leaves of their own."""

    @staticmethod
    def forward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return tuple(None if y is None else y.clone() for y in gradients)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def _list_gradient_edges(self: BackwardFunction) -> list[Any]:
    """Return an edge for each gradient, None where there was none."""
    edges = iter(self.edges)
    return [next(edges) if needed else None for needed in self.context.needs_input_grad]


_Once._backward_cls.__name__ = "Error"  # the class of PyTorch's node
_Once._backward_cls._all_edges = _list_gradient_edges
