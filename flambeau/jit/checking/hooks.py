"""Hooks of scripted modules: their signatures must match what `forward` takes and returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...nn.module import Module
from .signatures import Signature, derive_signature
from .source import is_library, read_source
from .types import NONE, UNKNOWN, Kind, fits, is_known, make_tuple

__all__ = ["check_hooks"]

_PRE_ADVICE = (
    "This error occurred while scripting the forward pre-hook '{hook}' on module '{module}'. If "
    "you did not want to script this pre-hook remove it from the original NN module before "
    "scripting. Pre-hooks for module '{module}' are expected to have the following signature: "
    "{hook}(self, input: {inputs}) with a return type of either 'None'{returns}.\n")
_ADVICE = (
    "This error occurred while scripting the forward hook '{hook}' on module {module}. If you did "
    "not want to script this hook remove it from the original NN module before scripting. This "
    "hook was expected to have the following signature: {hook}(self, input: {inputs}, output: "
    "{output}). The type of the output arg is the returned type from either the forward method or "
    "the previous hook if it exists. Note that hooks can return anything, but if the hook is on a "
    "submodule the outer module is expecting the same return type as the submodule's forward.\n")


def check_hooks(module: Module, forward: Signature, returned: Kind,
                check: Callable[[Any, Module], Kind]) -> None:
    """Refuse hooks of other signatures; check the bodies with `check`.

    Raises RuntimeError.
    """
    pre_hooks = [h for h in module._forward_pre_hooks.values() if not _is_skipped(h)]
    hooks = [h for h in module._forward_hooks.values() if not _is_skipped(h)]
    for kind, group in (("Hook", hooks), ("Pre-hook", pre_hooks)):
        _refuse_name_clashes(module, kind, group)
    inputs = make_tuple(*forward.kinds.values())
    for hook in pre_hooks:
        _check_pre_hook(module, hook, inputs)
        check(hook, module)
    output = returned
    for hook in hooks:
        signature = _check_hook(module, hook, inputs, output)
        result = check(hook, module)
        actual = result if signature.returns is None else signature.returns
        if actual != NONE:
            output = actual


def _is_skipped(hook: Any) -> bool:
    """Return whether a hook is no function of the user's, as those of torch.nn.utils."""
    return not hasattr(hook, "__name__") or is_library(hook) or read_source(hook) is None


def _refuse_name_clashes(module: Module, kind: str, hooks: list[Any]) -> None:
    by_name: dict[str, Any] = {}
    for hook in hooks:
        if by_name.setdefault(hook.__name__, hook) is not hook:
            raise RuntimeError(
                f"{kind} '{hook.__name__}' on {type(module).__name__} has at least two different "
                "python definitions. Please use unique names for all hooks.")
        if callable(getattr(type(module), hook.__name__, None)):
            raise RuntimeError(
                f"Can't define hook: {hook.__name__} on class: __torch__.{type(module).__name__} "
                "because a method or hook with that name already exists.")


def _signature(hook: Any) -> Signature:
    plain = inspect.unwrap(hook)
    source = read_source(plain)
    assert source is not None
    return derive_signature(plain, source, True)


def _check_input(signature: Signature, inputs: Kind, subject: str, advice: str) -> None:
    received = next(iter(signature.kinds.values()))
    if received == UNKNOWN or not is_known(inputs):
        return
    if received.name != "Tuple":
        raise RuntimeError(f"{subject} expected the input argument to be typed as a Tuple but "
                           f"found type: '{received}' instead.\n{advice}")
    if len(received.inner) != len(inputs.inner):
        raise RuntimeError(f"{subject} has the wrong number of contained types for the input "
                           f"argument's Tuple. Received type: '{received}'.\n{advice}")
    if not all(map(fits, inputs.inner, received.inner)):
        raise RuntimeError(f"{subject} has the wrong inner types for the input tuple argument. "
                           f"Received type: '{received}'.\n{advice}")


def _check_count(signature: Signature, expected: int, subject: str, advice: str) -> None:
    actual = len(signature.kinds) + 1
    if actual != expected:
        raise RuntimeError(f"{subject} was expected to only have exactly {expected} inputs but it "
                           f"had {actual} inputs. {advice}")


def _check_pre_hook(module: Module, hook: Any, inputs: Kind) -> None:
    name, owner = hook.__name__, type(module).__name__
    subject, signature = f"Pre-hook '{name}' on module '{owner}'", _signature(hook)
    is_nested = len(inputs.inner) == 1 and inputs.inner[0].name == "Tuple"
    accepted = [inputs] if is_nested or len(inputs.inner) != 1 else [inputs.inner[0], inputs]
    if not inputs.inner:
        accepted = []
    texts = [f"'{kind}'" for kind in accepted]
    returns = f", {texts[0]}, or {texts[1]}" if len(texts) == 2 else \
        f" or {texts[0]}" if texts else ""
    advice = _PRE_ADVICE.format(
        hook=name, module=owner, inputs=_format_inputs(inputs), returns=returns)
    _check_count(signature, 2, subject, advice)
    _check_input(signature, inputs, subject, advice)
    if signature.returns is None:
        raise RuntimeError(f"{subject} is missing a return annotation. Return annotations are "
                           f"required, please add one.\n{advice}")
    returned = signature.returns
    if returned == NONE or not is_known(returned) or not is_known(inputs):
        return
    if not any(fits(returned, kind) for kind in accepted):
        nested = (" When forward has a single tuple input argument, the return needs to be 'None' "
                  "or a nested tuple containing forward's input tuple argument as in: "
                  f"'{inputs}'.\n") if is_nested else ""
        raise RuntimeError(f"{subject} returned the wrong type of: '{returned}'.{nested}{advice}")


def _check_hook(module: Module, hook: Any, inputs: Kind, output: Kind) -> Signature:
    name, owner = hook.__name__, type(module).__name__
    subject, signature = f"Hook '{name}' on module '{owner}'", _signature(hook)
    advice = _ADVICE.format(hook=name, module=owner, inputs=_format_inputs(inputs), output=output)
    _check_count(signature, 3, subject, advice)
    _check_input(signature, inputs, subject, advice)
    received = list(signature.kinds.values())[1]
    if is_known(received) and is_known(output) and not fits(output, received):
        raise RuntimeError(f"{subject} has the wrong type for the output argument. Received type: "
                           f"'{received}'. Expected type: '{output}'.\n{advice}")
    return signature


def _format_inputs(inputs: Kind) -> str:
    return str(inputs) if inputs.inner else "Tuple[()]"
