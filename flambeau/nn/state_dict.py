"""A module's state as a dictionary from dotted paths to tensors: saving and loading it.

`state_dict()` returns references, not copies. Its `_metadata` holds each module's `_version`, so
that `_load_from_state_dict` can read what older versions wrote.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..autograd import no_grad
from ..autograd.handle import RemovableHandle
from ..native.foundation.public_names import class_of
from ..native.foundation.user_frames import warn
from ..native.foundation.user_frames import add_notes
from ..tensor import Tensor
from .conversion import ConversionPolicy
from .hooks import _add, _WrappedHook
from .members import Members
from .parameter import Parameter, is_lazy
from .swap import swap_tensors

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The missing and unexpected keys of a `load_state_dict`."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateDict(Members):
    """The part of Module that saves and loads state_dicts."""

    _version: int = 1
    T_destination = TypeVar("T_destination", bound=dict[str, Any])

    # ---------------------------------------------------------------- writing

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters, persistent buffers and extra state by path, detached unless keep_vars."""
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._flambeau_hooks_of("_state_dict_pre_hooks"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._flambeau_hooks_of("_state_dict_hooks"):
            result = hook(self, destination, prefix, metadata)
            if result is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = result
        return destination

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        """Write this module's own state; a subclass may write more."""
        for name, value in self._parameters.items():
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def _flambeau_persistent(self) -> dict[str, Tensor]:
        """This module's own parameters and persistent buffers, without those that are None."""
        stored: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            if parameter is not None:
                stored[name] = parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                stored[name] = buffer
        return stored

    def get_extra_state(self) -> Any:
        """Return additional state, in a subclass; it must be picklable."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that `get_extra_state` returned, in a subclass."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    # ---------------------------------------------------------------- loading

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy values into the parameters and buffers; return missing and unexpected keys.

        With `strict` these raise RuntimeError; tensors of another shape always do. With `assign`
        the given tensors replace the module's own, and keep their dtype and device.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {class_of(state_dict)}.")
        loading = _Loading(getattr(state_dict, "_metadata", None), assign)
        copied: Any = OrderedDict(state_dict)
        if loading.metadata is not None:
            copied._metadata = loading.metadata
        loading.load(self, copied, "")
        missing, unexpected, errors = loading.missing, loading.unexpected, loading.errors
        if strict:
            complaints = (("Unexpected", unexpected), ("Missing", missing))
            for problem, keys in complaints:
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{problem} key(s) in state_dict: {listed}. ")
        if errors:
            raise add_notes(RuntimeError(
                f"Error(s) in loading state_dict for {self._get_name()}:\n\t" + "\n\t".join(errors)
            ), _advise_on_prefix(missing, unexpected))
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own state; a subclass converts older versions here.

        `local_metadata["version"]` is the `_version` of the module that wrote the state.
        """
        for hook in self._flambeau_hooks_of("_load_state_dict_pre_hooks"):
            hook(
                state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs,
            )
        stored = self._flambeau_persistent()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, target in stored.items():
            key = prefix + name
            if key in state_dict:
                error = _load_one(self, name, target, key, state_dict[key], assign)
                if error is not None:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateDict.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            unexpected_keys.extend(self._flambeau_unexpected(state_dict, prefix, stored, extra))

    def _flambeau_unexpected(
        self, state_dict: dict, prefix: str, stored: Any, extra: str
    ) -> list[str]:
        """The keys under `prefix` that belong to no member."""
        result = []
        for key in state_dict:
            if key.startswith(prefix) and key != extra:
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (self._modules if dot else stored):
                    result.append(key)
        return result

    # ---------------------------------------------------------------- hooks

    def _flambeau_hooks_of(self, name: str) -> tuple[Callable, ...]:
        """The hooks in one dictionary, without creating it."""
        hooks = self.__dict__.get(name)
        return tuple(hooks.values()) if hooks else ()

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call hook(module, prefix, keep_vars) before the state is written."""
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata), which changes it in place."""
        marked: Any = hook
        marked._from_public_api = True
        return _add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """Like `register_state_dict_post_hook`, but the hook's result replaces the state_dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return _add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs) before the module loads its own state.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable, with_module: bool = False
    ) -> RemovableHandle:
        """Like the public method; without `with_module` the hook does not take the module."""
        wrapped = _WrappedHook(hook, self if with_module else None)
        return _add(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call hook(module, incompatible_keys) after loading; it may change them in place."""
        return _add(self._load_state_dict_post_hooks, hook)


class _Loading:
    """One call of load_state_dict, as it walks the tree."""

    def __init__(self, metadata: Any, assign: bool) -> None:
        self.metadata, self.assign = metadata, assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, state: dict, prefix: str) -> None:
        """Load a module and its descendants from the keys of the state that start with prefix."""
        metadata = {} if self.metadata is None else self.metadata.get(prefix[:-1], {})
        if self.assign:
            metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state, prefix, metadata, True, self.missing, self.unexpected, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                child_state = {key: value for key, value in state.items() if key.startswith(path)}
                self.load(child, child_state, path)
        keys = _IncompatibleKeys(self.missing, self.unexpected)
        for hook in module._flambeau_hooks_of("_load_state_dict_post_hooks"):
            if hook(module, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                    "to return new values, if incompatible_keys need to be modified, it should be "
                    "done inplace."
                )


def _advise_on_prefix(missing: list[str], unexpected: list[str]) -> str | None:
    """Advice if all names differ by one prefix, such as that of DataParallel; else None."""
    for extra, other_names, change in ((unexpected, missing, "k.removeprefix({!r}): v"),
                                       (missing, unexpected, "{!r} + k: v")):
        for other_name in other_names if extra else ():
            prefix = extra[0].removesuffix(other_name)
            is_prefix = prefix.endswith(".") and all(
                name.startswith(prefix) and name.removeprefix(prefix) in other_names
                for name in extra
            )
            if is_prefix and prefix != extra[0]:
                pairs = change.format(prefix)
                return (f"all {len(extra)} names differ by the prefix {prefix!r}: "
                        f"{{{pairs} for k, v in state.items()}}")
    return None


def _load_one(
    module: Any, name: str, target: Tensor, key: str, value: Any, assign: bool
) -> str | None:
    """Load one tensor; return the error to report, or None."""
    if not isinstance(value, Tensor) and not hasattr(value, "__torch_function__"):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {class_of(value)}"
        )
    if not is_lazy(target):
        # Scalars had shape (1,) in PyTorch 0.3.
        if target.dim() == 0 and value.shape == (1,):
            value = value[0]
        if value.shape != target.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {target.shape}."
            )
    if target.is_meta and not value.is_meta and not assign:
        warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
            "in the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
            "items in the state dictionary to their corresponding key in the module instead of "
            "copying them in place?)",
        )
    try:
        with no_grad():
            if ConversionPolicy.swap:
                _swap_in(target, value, assign)
            elif assign:
                setattr(module, name, _prepare_assignment(target, value))
            else:
                target.copy_(value)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{target.size()} and whose dimensions in the checkpoint are {value.size()}, an "
            f"exception occurred : {error.args}."
        )
    return None


def _swap_in(target: Any, value: Any, assign: bool) -> None:
    """Swap the result of `module_load` into the target, which stays the same object."""
    new = target.module_load(value, assign=assign)
    if new is value or new is target:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning "
            "one of the inputs in module_load"
        )
    if isinstance(target, Parameter):
        if isinstance(new, Parameter):
            new.requires_grad_(target.requires_grad)
        else:
            new = Parameter(new, requires_grad=target.requires_grad)
    swap_tensors(target, new)


def _prepare_assignment(target: Tensor, value: Tensor) -> Tensor:
    if not isinstance(target, Parameter):
        return value
    if isinstance(value, Parameter):
        return value.requires_grad_(target.requires_grad)
    return Parameter(value, requires_grad=target.requires_grad)
