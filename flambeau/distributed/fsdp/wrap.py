"""Policies that choose which submodules become separately sharded units."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...nn import ModuleDict, ModuleList, MultiheadAttention
from ...nn.module import Module

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
    "wrap",
]

Policy = Callable[..., bool]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: every submodule becomes a unit."""
    return True


class _Policy(ABC):
    """A policy that selects the units and their options at once."""

    @abstractmethod
    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        """Return the options of each module that becomes a unit."""


class ModuleWrapPolicy(_Policy):
    """Every module of the classes becomes a unit with the root's options.

    >>> from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
    >>> policy = ModuleWrapPolicy({nn.Linear})
    >>> policy(nn.Linear(1, 1), recurse=False)
    True
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        classes = tuple(self._module_classes)
        return {
            module: copy.copy(root_kwargs) for module in root_module.modules()
            if module not in ignored_modules and isinstance(module, classes)
        }

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes_str})"


class CustomPolicy(_Policy):
    """`lambda_fn(module)` returns whether the module becomes a unit, or a dictionary of the options
    in which it differs from the root."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        options: dict[Module, dict[str, Any]] = {}
        for module in root_module.modules():
            if module in ignored_modules:
                continue
            answer = self._lambda_fn(module)
            if not isinstance(answer, (dict, bool)):
                raise ValueError("The lambda_fn passed to CustomPolicy should return "
                                 f"False/True or a kwarg dict, but it returned {answer}")
            if answer:
                options[module] = {**root_kwargs, **(answer if isinstance(answer, dict) else {})}
        return options


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """A module becomes a unit if `lambda_fn(module)`."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:
    """A module of the classes becomes a unit."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def _wrap_module_cls_individually(
    module: Module, module_classes: Sequence[type], recurse: bool, *args: Any, **kwargs: Any
) -> bool:
    """A module of the classes becomes a unit."""
    return recurse or isinstance(module, tuple(module_classes))


def _or_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Policy]
) -> bool:
    """A module becomes a unit if any of the policies selects it."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
               for policy in policies)


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
    force_leaf_modules: Iterable[type[Module]] | None = None,
    exclude_wrap_modules: Iterable[type[Module]] | None = None,
) -> bool:
    """A module becomes a unit once `min_num_params` elements below it belong to no unit yet."""
    policy: Any = size_based_auto_wrap_policy
    leaves = policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    barred = leaves if recurse else excluded
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(barred))


vars(size_based_auto_wrap_policy).update(
    EXCLUDE_WRAP_MODULES={ModuleList, ModuleDict}, FORCE_LEAF_MODULES={MultiheadAttention}
)


class _Wrapping:
    """The wrapper and its options inside `enable_wrap`; None outside."""

    wrapper_cls: Any = None
    options: dict[str, Any] = {}  # noqa: RUF012  # replaced, never changed


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Make `wrap(module)` inside the context return `wrapper_cls(module, **wrapper_kwargs)`."""
    if _Wrapping.wrapper_cls is not None:
        raise NotImplementedError("You are already within an autowrap context and we currently do "
                                  "not supported nested autowrap.")
    _Wrapping.wrapper_cls, _Wrapping.options = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _Wrapping.wrapper_cls, _Wrapping.options = None, {}


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Wrap a module inside `enable_wrap`; return it unchanged outside.

    >>> from flambeau.distributed.fsdp.wrap import enable_wrap, wrap
    >>> with enable_wrap(wrapper_cls=nn.Sequential):
    ...     wrap(nn.ReLU())
    Sequential(
      (0): ReLU()
    )
    """
    if _Wrapping.wrapper_cls is None:
        return module
    return _Wrapping.wrapper_cls(module, **{**_Wrapping.options, **wrap_overrides})


# ------------------------------------------------------------------------ applying a policy


def apply_policy(
    root: Module, policy: Any, ignored_modules: set[Module], ignored: set[int],
    options: dict[str, Any], wrapper: Callable[..., Module],
) -> None:
    """Replace the submodules that a policy selects by `wrapper(submodule, **options)`."""
    precision = options.get("mixed_precision")
    classes = () if precision is None else tuple(precision._module_classes_to_ignore)
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(root, ignored_modules, options)
        for module in root.modules() if classes else ():
            if module not in ignored_modules and isinstance(module, classes):
                chosen[module] = {**chosen.get(module, options), "mixed_precision": None}
        _wrap_chosen(root, chosen, wrapper)
        return
    _check_unwrapped(root, ignored_modules, wrapper)
    _wrap_children(root, _with_classes(policy, classes), ignored_modules, ignored,
                   lambda module: wrapper(module, **(
                       {**options, "mixed_precision": None} if isinstance(module, classes)
                       else options)))


def _with_classes(policy: Policy, classes: tuple[type, ...]) -> Policy:
    """Return a policy that also selects the modules of some classes."""
    if not classes:
        return policy
    return lambda module, recurse, nonwrapped_numel: (
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        or recurse or isinstance(module, classes)
    )


def _check_unwrapped(root: Module, ignored_modules: set[Module], wrapper: Any) -> None:
    for module in root.modules():
        if module not in ignored_modules and isinstance(wrapper, type) \
                and isinstance(module, wrapper):
            raise AssertionError(f"Child module {module} is already wrapped by {wrapper}")


def _wrap_chosen(root: Module, chosen: dict[Module, dict[str, Any]], wrapper: Any) -> None:
    """Wrap the chosen submodules, children before their parents."""
    met = {root}

    def visit(module: Module) -> None:
        for name, child in list(module.named_children()):
            if child in met:
                continue
            met.add(child)
            visit(child)
            if child in chosen:
                setattr(module, name, wrapper(child, **chosen[child]))

    visit(root)


def _wrap_children(
    module: Module, policy: Policy, ignored_modules: set[Module], ignored: set[int],
    wrapper: Callable[[Module], Module],
) -> tuple[int, int]:
    """Wrap the submodules that a callable policy selects.

    Return the numbers of elements below the module, and of those that belong to a unit now.
    """
    total = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
    if not policy(module=module, recurse=True, nonwrapped_numel=total):
        return total, 0
    wrapped = 0
    for name, child in list(module.named_children()):
        if child in ignored_modules:
            continue
        below, done = _wrap_children(child, policy, ignored_modules, ignored, wrapper)
        is_visited = policy(module=child, recurse=True, nonwrapped_numel=below)
        if is_visited and policy(module=child, recurse=False, nonwrapped_numel=below - done):
            setattr(module, name, wrapper(child))
            done = below
        wrapped += done
    return total, wrapped
