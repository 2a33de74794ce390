"""Hooks: user functions that see, and may replace, gradients during backward.

A leaf stores its hooks in the tensor's attributes, other tensors in their node. Order at a node:
tensor hooks (`retain_grad` last), node pre-hooks, the node, node hooks.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..tensor.tensor import Tensor
from .handle import RemovableHandle
from .mode import MODE
from .node import AccumulatorHook, Node


def register_hook(tensor: Tensor, hook: Callable) -> RemovableHandle:
    """Call hook(grad) when the tensor's gradient is known; a returned tensor replaces it.

    >>> x = torch.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    """
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    node = tensor._history()
    if node is None:
        hooks = tensor.__dict__.setdefault("_backward_hooks", OrderedDict())
    else:
        hooks = node.shown().hooks_at(("tensor", node.output_number()))
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_post_accumulate_grad_hook(
    tensor: Tensor, hook: Callable
) -> RemovableHandle:
    """Call hook(tensor) after a leaf's grad was accumulated.

    >>> x = torch.ones(2, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda x: print("grad", x.grad))
    >>> x.sum().backward()
    grad tensor([1., 1.])
    """
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not tensor.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    hooks = tensor.__dict__.setdefault("_post_accumulate_grad_hooks", OrderedDict())
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def retain_grad(tensor: Tensor) -> None:
    """Keep the gradient of a non-leaf tensor in its `.grad`.

    >>> x = torch.ones(2, requires_grad=True)
    >>> y = x * 2
    >>> y.retain_grad()
    >>> y.sum().backward()
    >>> y.grad
    tensor([1., 1.])
    """
    if MODE.transforms:
        raise RuntimeError(
            "You are attempting to call Tensor.retain_grad() inside of a function being "
            "transformed by a functorch transform. This is unsupported, please attempt to use the "
            "functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call retain_grad() "
            "outside of a function being transformed instead.")
    if not tensor.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    node = tensor._history()
    if node is None or tensor.__dict__.get("_retained"):
        return
    tensor.__dict__["_retained"] = True
    reference = weakref.ref(tensor)
    hooks = node.shown().hooks_at(("retain", node.output_number()))

    def keep(g: Tensor | None) -> None:
        leaf = reference()
        if leaf is not None and g is not None:
            g = g.detach() if not g._requires_grad else g
            leaf._grad = g.clone() if leaf._grad is None else leaf._grad + g

    hooks[id(tensor)] = keep


def move_retained(tensor: Tensor, old: Any, new: Any) -> None:
    """After an in-place write, make `retain_grad` keep the gradient of the tensor's new value."""
    if old is None or old.shown().hooks is None:
        return
    hooks = old.shown().hooks.get(("retain", old.output_number()), {})
    keep = hooks.pop(id(tensor), None)
    if keep is not None:
        new.shown().hooks_at(("retain", new.output_number()))[id(tensor)] = keep


def run_leaf_hooks(leaf: Tensor, g: Tensor, before: bool, accumulates: bool = True) -> Tensor:
    """Run a leaf's hooks before or after accumulating its cotangent; return the cotangent.

    Hooks of its node run last, and only if `accumulates`.
    """
    name = "_backward_hooks" if before else "_post_accumulate_grad_hooks"
    hooks = tuple(leaf.__dict__.get(name, {}).values())
    for hook in hooks:
        if hook.__class__ is AccumulatorHook:
            continue
        if before:
            g = _replace_gradient(hook(g), g)
        else:
            _check_nothing_returned(hook(leaf), leaf)
    for hook in hooks:
        if hook.__class__ is not AccumulatorHook or not accumulates:
            continue
        if before:
            result = hook.function((g,))
            g = g if result is None else _replace_gradient(result[0], g)
        else:
            hook.function((), (g,))
    return g


def _check_nothing_returned(result: Any, leaf: Tensor) -> None:
    # PyTorch lets the tensor itself pass: `lambda p: p.add_(p.grad, alpha=-lr)`.
    if result is None or result is leaf:
        return
    if not hasattr(result, "_array"):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def run_output_hooks(node: Node, grads: Any) -> Any:
    """Run the hooks of a node's outputs, `retain_grad` last; return the resulting gradients."""
    for kind in ("tensor", "retain"):
        for i in range(node.outputs):
            for hook in tuple(node.hooks.get((kind, i), {}).values()):
                grads = _run_on_output(hook, grads, i)
    return grads


def run_pre_hooks(node: Node, grads: Any) -> Any:
    """Run the hooks before a node; return the resulting gradients of its outputs."""
    for hook in tuple(node.hooks.get(("pre", None), {}).values()):
        supplied = grads if grads.__class__ is tuple else (grads,)
        new = _check_count(hook, hook(supplied), len(supplied))
        if new is not None:
            grads = tuple(new) if grads.__class__ is tuple else new[0]
    return grads


def run_post_hooks(node: Node, grads: Any, cotangents: Any) -> Any:
    """Run the hooks after a node; return the resulting gradients of its inputs."""
    for hook in tuple(node.hooks.get(("post", None), {}).values()):
        supplied = cotangents if cotangents.__class__ is tuple else (cotangents,)
        new = _check_count(hook, hook(tuple(grads), supplied), len(grads))
        if new is not None:
            grads = list(new)
    return grads


def _check_count(hook: Callable, new: Any, expected: int) -> tuple | list | None:
    """Return a node hook's result as a sequence of `expected` gradients, or None.

    Raise TypeError or RuntimeError if it is anything else.
    """
    if new is None:
        return None
    if isinstance(new, Tensor) and expected == 1:
        return (new,)
    if new.__class__ not in (tuple, list):
        raise TypeError(f"expected tuple, but hook returned '{type(new).__name__}'")
    if len(new) != expected:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', '<unknown>')}' has returned an incorrect number of "
            f"values (got {len(new)}, but expected {expected})"
        )
    return new


def _run_on_output(hook: Callable, grads: Any, index: int) -> Any:
    if grads.__class__ is not tuple:
        return _replace_gradient(hook(grads), grads)
    g = grads[index]
    result = hook(g)
    if g is None and result is not None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    return (*grads[:index], g if g is None else _replace_gradient(result, g), *grads[index + 1:])


def _replace_gradient(new: Any, g: Tensor) -> Tensor:
    if new is None:
        return g
    if not isinstance(new, Tensor):
        raise TypeError(f"hook must return a Tensor or None, not {type(new).__name__}")
    if new._array.shape != g._array.shape:
        raise RuntimeError(
            f"hook has changed the size of value: expected {tuple(g.shape)}, "
            f"got {tuple(new.shape)}"
        )
    return new
