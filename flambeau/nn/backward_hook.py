"""BackwardHook: call a module's full backward hooks when gradients pass its outputs and inputs.

An identity function is inserted before the module's inputs and after its outputs; the hooks are
registered on the nodes of these two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..autograd import Function, is_grad_enabled
from ..autograd.mode import MODE
from ..native.foundation.user_frames import warn
from ..tensor import Tensor


class BackwardHookFunction(Function):
    """The identity on any number of tensors."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors unchanged."""
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        """Return the cotangents unchanged."""
        return grads


def _spread(indices: Sequence[int], values: Sequence[Any], size: int) -> tuple[Any, ...]:
    """Return a tuple of `size` with the values at the indices, None elsewhere."""
    spread = [None] * size
    for index, value in zip(indices, values, strict=True):
        spread[index] = value
    return tuple(spread)


class _Passed:
    """The positions of tensors among the arguments; shape and dtype of those without gradient.

    A node's hooks only receive gradients of tensors that require grad.
    """

    def __init__(self, indices: list[int], tensors: Sequence[Tensor], size: int) -> None:
        self.indices, self.size = indices, size
        self.constant = [None if t.requires_grad else (t.shape, t.dtype) for t in tensors]

    def spread(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Place gradients at their arguments' positions; zeros for tensors without gradient."""
        if len(grads) != len(self.indices):
            result = iter(grads)
            grads = [next(result) if c is None else _create_zeros(c) for c in self.constant]
        return _spread(self.indices, grads, self.size)

    def gathered(self, grads: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The inverse: select the gradients to return to a node that passed `inputs`."""
        if len(inputs) == len(self.indices):
            return tuple(grads[i] for i in self.indices)
        pairs = zip(self.indices, self.constant, strict=True)
        return tuple(grads[i] for i, constant in pairs if constant is None)


def _create_zeros(constant: tuple[Any, Any]) -> Tensor:
    shape, dtype = constant
    return ops.zeros(shape, dtype=dtype)


def _on_tensors(callback: Callable[[Any], None], args: Any) -> tuple[Any, _Passed | None]:
    """Pass the tensors in `args` through the identity, and call `callback` with its node.

    Return the new arguments and the positions of the tensors; unchanged and None if none of them
    requires grad.
    """
    indices = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
    records = is_grad_enabled() and not MODE.exporting
    if not (records and any(args[i].requires_grad for i in indices)):
        return args, None
    tensors = [args[i] for i in indices]
    outputs = BackwardHookFunction.apply(*tensors)
    node = next(y.grad_fn for x, y in zip(tensors, outputs, strict=True) if x.requires_grad)
    callback(node)
    changed = list(args)
    for index, tensor in zip(indices, outputs, strict=True):
        changed[index] = tensor
    # The constructor of a named tuple takes its fields separately.
    new = tuple(changed) if type(args) is tuple else type(args)(*changed)
    return new, _Passed(indices, tensors, len(changed))


class BackwardHook:
    """The full backward hooks of one call of a module.

    `setup_input_hook` takes the module's positional arguments, `setup_output_hook` its result; both
    return the values to use instead.
    """

    def __init__(self, module: Any, user_hooks: list, user_pre_hooks: list) -> None:
        self.module = module
        self.user_hooks, self.user_pre_hooks = user_hooks, user_pre_hooks
        self.grad_outputs: tuple | None = None
        self.n_inputs = 0
        self.inputs: _Passed | None = None
        self.outputs: _Passed | None = None

    def setup_input_hook(self, args: tuple) -> tuple:
        """Insert a node before the arguments, with the user's hooks registered on it."""
        self.n_inputs = len(args)
        args, self.inputs = _on_tensors(lambda node: node.register_hook(self._run_at_inputs), args)
        return args

    def setup_output_hook(self, result: Any) -> Any:
        """Insert a node after the result that captures its gradients."""
        outputs = result if isinstance(result, tuple) else (result,)
        outputs, self.outputs = _on_tensors(
            lambda node: node.register_hook(self._run_at_outputs), outputs
        )
        return outputs if isinstance(result, tuple) else outputs[0]

    def _run_at_inputs(self, grad_input: Sequence[Any], _: Any) -> tuple | None:
        if self.grad_outputs is None:  # backward did not reach the outputs
            return None
        assert self.inputs is not None  # called by its node's hook
        grads = self.inputs.spread(grad_input)
        for hook in self.user_hooks:
            changed = hook(self.module, grads, self.grad_outputs)
            if changed is None:
                continue
            if len(changed) != len(grads):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, got "
                    f"{len(changed)}, but expected {len(grads)}"
                )
            grads = changed
        self.grad_outputs = None
        return self.inputs.gathered(grads, grad_input)

    def _run_at_outputs(
        self, grad_input: Sequence[Any], grad_output: Sequence[Any]
    ) -> tuple | None:
        assert self.outputs is not None
        grads = _spread(self.outputs.indices, grad_output, self.outputs.size)
        for hook in self.user_pre_hooks:
            changed = hook(self.module, grads)
            if changed is None:
                continue
            if len(changed) != len(grads):
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, got "
                    f"{len(changed)}, but expected {len(grads)}"
                )
            grads = changed
        self.grad_outputs = grads
        if self.inputs is None:
            self._without_inputs()
        return self.outputs.gathered(grads, grad_input)

    def _without_inputs(self) -> None:
        """Call the hooks at the outputs, since no input receives a gradient."""
        warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients. See https://docs.pytorch.org/docs/main/"
            "generated/torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for "
            "more details.",
        )
        for hook in self.user_hooks:
            changed = hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
            supplied = isinstance(changed, tuple) and all(g is None for g in changed)
            if changed is not None and not supplied:
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None
