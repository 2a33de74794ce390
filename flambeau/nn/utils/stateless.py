"""functional_call: call a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from ..module import Module

__all__ = ["functional_call"]

_MISSING: Any = object()


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated in favor of `torch.func.functional_call`, which does the same."""
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs), with the tensors given by path in place of the module's own.

    The module is restored afterwards. If the call replaces one of these tensors (as batch
    normalization may), the new one is put into the dictionary. With `tie_weights` a tensor is used
    for all names of a shared parameter; with `strict` exactly the module's names must be given.
    """
    if getattr(module, "_flambeau_is_script", False):
        raise RuntimeError("The stateless API can't be used with Jitted modules")
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(
        module, parameters_and_buffers, tie_weights=tie_weights, strict=strict
    ):
        return module(*args, **(kwargs or {}))


@contextlib.contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
) -> Iterator[None]:
    """Swap other tensors into the module for the duration of the block."""
    replacements = dict(parameters_and_buffers)
    if tie_weights:
        replacements = _with_tied_names(module, replacements)
    if strict:
        _check_names(module, replacements)
    replaced: dict[str, Any] = {}
    try:
        for path, tensor in replacements.items():
            replaced[path] = _swap(module, path, tensor)
        yield
    finally:
        # In reverse, so that a name given twice (through a shared submodule) is restored correctly.
        for path, tensor in reversed(replaced.items()):
            new = _swap(module, path, tensor)
            if path in parameters_and_buffers and new is not _MISSING:
                parameters_and_buffers[path] = new


def _swap(module: Module, path: str, tensor: Any) -> Any:
    """Put a tensor of any class at a path; return what was there."""
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    prefix, _, name = path.rpartition(".")
    owner = module.get_submodule(prefix)
    if not name:
        raise KeyError('tensor name can\'t be empty string ""')
    for members in (owner._parameters, owner._buffers):
        if name in members:
            stored = members[name]
            if tensor is _MISSING:
                del members[name]
            else:
                members[name] = tensor
            return stored
    stored = getattr(owner, name, _MISSING)
    if stored is not _MISSING and stored is not None and not isinstance(stored, Tensor):
        raise TypeError(f"attribute `{name}`: {stored} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(owner, name, tensor)
    elif stored is not _MISSING:
        delattr(owner, name)
    return stored


def _list_named_tensors(module: Module) -> dict[str, Tensor]:
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _with_tied_names(module: Module, replacements: dict[str, Tensor]) -> dict[str, Tensor]:
    """Extend `replacements` to all names of each shared tensor."""
    names_of: dict[int, list[str]] = {}
    for name, tensor in _list_named_tensors(module).items():
        names_of.setdefault(id(tensor), []).append(name)
    complete = dict(replacements)
    for names in names_of.values():
        values = [replacements[name] for name in names if name in replacements]
        if len(names) == 1 or not values:
            continue
        if any(value is not values[0] for value in values):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                "Consider using tie_weights=False"
            )
        complete.update(dict.fromkeys(names, values[0]))
    return complete


def _check_names(module: Module, replacements: dict[str, Tensor]) -> None:
    expected, supplied = set(_list_named_tensors(module)), set(replacements)
    errors = []
    for problem, names in (("Unexpected", supplied - expected), ("Missing", expected - supplied)):
        if names:
            errors.append(f"{problem} key(s): {', '.join(map(repr, sorted(names)))}.")
    if errors:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(errors)
        )
