"""Optimizer: parameter groups, per-parameter state, and step hooks.

Subclasses define `step`. Hooks for all optimizers are registered on this module.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeAlias

from ..autograd import enable_grad
from ..autograd.handle import RemovableHandle
from ..native.foundation.public_names import class_name, class_of
from ..native.foundation.user_frames import add_notes, warn
from ..tensor import Tensor
from ..tensor.dtypes import float32
from .derived import (  # noqa: F401 - for optimizers derived from PyTorch's
    DeviceDict,
    DeviceDtypeDict,
    GraphCaptureChecks,
    _capturable_doc,
    _default_to_fused_or_foreach,
    _device_dtype_check_for_fused,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _foreach_doc,
    _foreach_supported_types,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]

_global_optimizer_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable] = OrderedDict()

counter_dtype, number = _get_scalar_dtype, _get_value  # under names of our own


class _Required:
    """Placeholder default of an option that every parameter group must set."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _register(hooks: OrderedDict, hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer.

    It may return new `(args, kwargs)`. Returns a handle that removes it.
    """
    return _register(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return _register(_global_optimizer_post_hooks, hook)


def check_learning_rate(lr: float | Tensor) -> None:
    """Raise ValueError unless the rate is at least 0 and, if a tensor, has one element."""
    check_single(lr)
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_single(lr: float | Tensor) -> None:
    """Raise ValueError unless a tensor rate has exactly one element."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, but its shape is {tuple(lr.shape)}")


def _name_type(value: Any) -> str:
    if isinstance(value, Tensor):
        return value.type()
    return class_name(type(value))


def _list_parameters(params: Any) -> list[Any]:
    """Return the parameters as a list. On error, note the missing call."""
    try:
        return list(params)
    except TypeError as error:
        owner = getattr(params, "__self__", None)
        if owner is not None and callable(params):
            name = params.__name__
            raise add_notes(error,
                            f"{name} is a method of {type(owner).__name__} that is not called: "
                               f"write {name}().") from None
        if callable(getattr(params, "parameters", None)):
            raise add_notes(error, "An optimizer takes a model's parameters: write "
                               ".parameters().") from None
        raise


class Optimizer(GraphCaptureChecks):
    """Base of all optimizers.

    `params` holds tensors, `(name, tensor)` pairs, or dicts with a key "params" and options that
    override `defaults`.

    Raises TypeError if `params` is a tensor or holds something else, ValueError if it is empty or
    holds a non-leaf tensor.

    >>> class SignSGD(torch.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     @torch.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for parameter in group["params"]:
    ...                 parameter -= group["lr"] * parameter.grad.sign()
    >>> weight = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
    >>> optimizer = SignSGD([weight], lr=0.5)
    >>> weight.grad = torch.tensor([3.0, -0.1])
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.5000, 1.5000])
    """

    OptimizerPreHook: TypeAlias = Callable[
        ["Optimizer", tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict] | None
    ]
    OptimizerPostHook: TypeAlias = Callable[
        ["Optimizer", tuple[Any, ...], dict[str, Any]], None
    ]

    _flambeau_hook_names = (
        "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks",
        "_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks",
        "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
    )

    _optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._flambeau_prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {_name_type(params)}"
            )
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = _list_parameters(params)
        if not groups:
            raise add_notes(
                ValueError("optimizer got an empty parameter list"),
                "A module finds layers that are its attributes or stand in nn.ModuleList or "
                "nn.ModuleDict, not those in a plain list or dict; a generator can be read once.",
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _flambeau_prepare(self) -> None:
        """Set up a new or unpickled optimizer: hook dicts, and a `step` that calls hooks."""
        for name in self._flambeau_hook_names:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)
            setattr(cls.step, "hooked", True)  # noqa: B010

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults, "state": self.state, "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._flambeau_prepare()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = f"{type(self).__name__} ("
        for index, group in enumerate(self.param_groups):
            lines += f"\nParameter Group {index}\n"
            for key in sorted(group):
                if key != "params":
                    lines += f"    {key}: {group[key]}\n"
        return lines + ")"

    # ---------------------------------------------------------------- hooks

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """Wrap `func`, a `step`, to run the optimizer's hooks and the global ones."""

        @functools.wraps(func)
        def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if not (
                self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
                or _global_optimizer_pre_hooks or _global_optimizer_post_hooks
            ):
                return func(self, *args, **kwargs)
            return self._flambeau_step_with_hooks(func, (self, *args), kwargs)

        return step

    def _flambeau_step_with_hooks(self, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        local = self._optimizer_step_pre_hooks
        for hook in [*_global_optimizer_pre_hooks.values(), *local.values()]:
            result = hook(self, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"{func} must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{result}."
                )
            args, kwargs = result
        out = func(*args, **kwargs)
        local = self._optimizer_step_post_hooks
        for hook in [*local.values(), *_global_optimizer_post_hooks.values()]:
            hook(self, args, kwargs)
        return out

    def register_step_pre_hook(self, hook: OptimizerPreHook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new ones."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: OptimizerPostHook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` collects anything."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[[Optimizer, dict], dict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` on the result, which it may change or replace."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[[Optimizer, dict], dict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another dict."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Return the state by parameter number, and the groups with numbers instead of parameters.

        Its tensors are the optimizer's, not copies.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        indices: dict[int, int] = {}
        groups, start = [], 0
        for group in self.param_groups:
            for index, p in enumerate(group["params"], start):
                indices.setdefault(id(p), index)
            start += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [indices[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            indices[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict`, cast to the dtypes and devices of the parameters.

        Raises ValueError if the groups differ in number or size.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = copy.deepcopy(state_dict["param_groups"])  # the optimizer keeps the copy
        self._flambeau_check_loaded_groups(groups)
        by_index = {
            index: (param, group)
            for group, current in zip(groups, self.param_groups, strict=True)
            for index, param in zip(group["params"], current["params"], strict=True)
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_index:
                param, group = by_index[key]
                state[param] = _cast(param, value, group)
            else:
                state[key] = value
        for group, current in zip(groups, self.param_groups, strict=True):
            group["params"] = current["params"]
            if "param_names" in current:
                group.setdefault("param_names", current["param_names"])
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _flambeau_check_loaded_groups(self, groups: list[dict[str, Any]]) -> None:
        if len(groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(groups)}, the optimizer has {len(self.param_groups)}"
            )
        for index, (group, current) in enumerate(zip(groups, self.param_groups, strict=True)):
            if len(group["params"]) != len(current["params"]):
                raise add_notes(
                    ValueError("loaded state dict contains a parameter group that doesn't match "
                               "the size of optimizer's group"),
                    f"Group {index} has {len(group['params'])} parameters, the optimizer's has "
                    f"{len(current['params'])}.",
                )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    if p.grad.grad_fn is not None:
                        p.grad.detach_()
                    else:
                        p.grad.requires_grad_(False)
                    p.grad.zero_()

    def _flambeau_loss_of(self, closure: Callable[[], float] | None) -> float | None:
        """Return the closure's result, computed with gradients enabled, or None."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def _flambeau_real_dense(self) -> Iterator[tuple[dict[str, Any], Tensor, Tensor]]:
        """Yield group, parameter and gradient for each gradient. For optimizers without support for
        complex parameters and sparse gradients: raises RuntimeError for these."""
        name = type(self).__name__
        for group in self.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if param.is_complex():
                    raise RuntimeError(f"{name} does not support complex parameters")
                if grad.is_sparse:
                    raise RuntimeError(f"{name} does not support sparse gradients")
                yield group, param, grad

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update the parameters once; return the result of `closure`, which computes the loss."""
        raise NotImplementedError(f"{type(self).__name__}.step")

    # ---------------------------------------------------------------- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with separate options, for example when unfreezing layers.

        Raises TypeError unless it is a dict whose "params" are tensors in an ordered collection;
        ValueError for a non-leaf tensor, a parameter of another group, a missing required option,
        or names for only some parameters.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {class_of(param_group)}")
        _unpack_params(param_group)
        for param in param_group["params"]:
            self._flambeau_check_param(param)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
            param_group.setdefault(name, default)
        params = set(param_group["params"])
        if len(params) != len(param_group["params"]):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, "
                "this will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                added = "with" if "param_names" in param_group else "without"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {added} names to the optimizer"
                )
        if not params.isdisjoint(itertools.chain(*(g["params"] for g in self.param_groups))):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _flambeau_check_param(self, param: Any) -> None:
        if not isinstance(param, Tensor):
            module = hasattr(param, "parameters")
            raise add_notes(
                TypeError("optimizer can only optimize Tensors, but one of the params is "
                          f"{_name_type(param)}"),
                "Pass the parameters: model.parameters()" if module else None,
            )
        differentiable = self.defaults.get("differentiable")
        if not differentiable and not (param.is_leaf or param.retains_grad):
            raise add_notes(
                ValueError("can't optimize a non-leaf Tensor"),
                "It was computed from another tensor. Compute first, then ask for the gradient: "
                "w = (2 * start).detach().requires_grad_().",
            )


# PyTorch's name, which optimizers that skip `__init__` call
setattr(Optimizer, "_patch_step_function", Optimizer._flambeau_prepare)  # noqa: B010


def _unpack_params(group: dict[str, Any]) -> None:
    """Make group["params"] a list of tensors, and their names, if given, group["param_names"]."""
    params = group["params"]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering "
            "of tensors in sets will change between runs. Please use a list instead."
        )
    params = [params] if isinstance(params, Tensor) else list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    group["params"] = [p[1] if isinstance(p, tuple) else p for p in params]
    if not names:
        return
    if len(names) != len(params):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    group["param_names"] = names


def _cast(param: Tensor, value: Any, group: dict[str, Any], key: Hashable = None) -> Any:
    """Cast a loaded state value to match `param`; step counters keep their dtype."""
    if isinstance(value, Tensor):
        if key == "step":
            casts_step = group.get("capturable", False) or group.get("fused", False)
            return value.to(dtype=float32, device=param.device) if casts_step else value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _cast(param, v, group, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        cls: Any = type(value)
        return cls(_cast(param, v, group) for v in value)
    return value
