"""Hooks in archives: methods of the module's class, and a function that runs them with `forward`.

PyTorch runs the hooks that a class lists when Python calls the module. Calls within the archive's
code call the function. It cannot be a method: hooks are compiled last in their class.
"""

from __future__ import annotations

import inspect
import typing
from types import FunctionType
from typing import Any

from ....nn.module import Module
from .source_code import FunctionCode

__all__ = ["HookMethods", "has_hooks", "write_hooks"]


def _list_user_hooks(table: dict[int, Any]) -> list[Any]:
    """Return the hooks of a table that are not the library's, such as weight_norm's.

    Raises NotImplementedError for hooks without source.
    """
    result = []
    for hook in table.values():
        owner = hook if hasattr(hook, "__qualname__") else type(hook)
        if (owner.__module__ or "").startswith("flambeau."):
            continue
        if not isinstance(hook, FunctionType):
            error = NotImplementedError(f"torch.jit.script: the hook {owner.__qualname__}")
            error.add_note("Use a function, call what it does in forward, or use torch.jit.trace, "
                           "which records it")
            raise error
        result.append(hook)
    return result


def has_hooks(module: Module) -> bool:
    """Return whether a module has hooks of the user's."""
    return any(map(_list_user_hooks, (module._forward_pre_hooks, module._forward_hooks)))


class HookMethods(typing.NamedTuple):
    """What hooks add to a class: names of pre-hooks and hooks, methods; and the function."""

    pre_hooks: list[str]
    hooks: list[str]
    methods: dict[str, str]
    function: str  # without its name

    def declarations(self) -> list[str]:
        """Return the lines of the class that list the hooks."""
        return [f"  __{table}__ = [{''.join(f'{chr(34)}{name}{chr(34)}, ' for name in names)}]"
                for table, names in (("forward_pre_hooks", self.pre_hooks),
                                     ("forward_hooks", self.hooks)) if names]


def write_hooks(module: Module, class_name: str, unit: Any) -> HookMethods:
    """Write the hooks of a module, and the function that runs `forward` with them.

    Raises NotImplementedError for a module whose forward has no source.
    """
    pre_hooks = _list_user_hooks(module._forward_pre_hooks)
    hooks = _list_user_hooks(module._forward_hooks)
    forward = inspect.unwrap(type(module).forward)
    if (forward.__module__ or "").startswith("flambeau."):
        hook = (*pre_hooks, *hooks)[0]
        error = NotImplementedError(f"torch.jit.script: the hook {hook.__qualname__} of a "
                                    f"{type(module).__name__}")
        error.add_note("Call what it does in the forward of a module around it")
        raise error
    methods = {}
    for hook in (*pre_hooks, *hooks):
        if hook.__name__ not in methods:
            code = FunctionCode(inspect.unwrap(hook), module, unit)
            methods[hook.__name__] = code.text(hook.__name__, class_name)
    parameters = FunctionCode(forward, module, unit).parameters(class_name)
    function = _write_calling_function(class_name, parameters, pre_hooks, hooks)
    return HookMethods([h.__name__ for h in pre_hooks], [h.__name__ for h in hooks], methods,
                       function)


def _write_calling_function(class_name: str, parameters: list[str], pre_hooks: list[Any],
                            hooks: list[Any]) -> str:
    """Return the function that runs them in turn, from its parameters on."""
    owner = parameters[0].partition(":")[0]
    names = [parameter.partition(":")[0] for parameter in parameters[1:]]
    inputs = "(" + "".join(f"{name}, " for name in names) + ")"
    lines = [f"_input0 = {inputs}"] if names else []
    current = "_input0" if names else "()"
    for number, hook in enumerate(pre_hooks, 1):
        call = f"{class_name}.{hook.__name__}({owner}, {current})"
        returned = _find_returned(hook)
        if returned is None:
            lines.append(f"_pre{number} = {call}")
            continue
        is_whole = typing.get_origin(returned) is tuple or returned is tuple
        lines.append(f"_input{number} = {call if is_whole else f'({call},)'}")
        current = f"_input{number}"
    arguments = ", ".join(f"({current})[{i}]" for i in range(len(names)))
    lines.append(f"_output0 = ({owner}).forward({arguments})")
    output = "_output0"
    for number, hook in enumerate(hooks, 1):
        lines.append(f"_output{number} = {class_name}.{hook.__name__}({owner}, {current}, "
                     f"{output})")
        if _has_result(hook):
            output = f"_output{number}"
    body = "".join(f"  {line}\n" for line in [*lines, f"return {output}"])
    return f"({', '.join(parameters)}):\n{body}"


def _find_returned(hook: Any) -> Any:
    """Return the annotated result of a pre-hook."""
    try:
        hints = typing.get_type_hints(hook)
    except (NameError, TypeError):
        hints = hook.__annotations__
    returned = hints.get("return")
    return None if returned is type(None) else returned


def _has_result(hook: Any) -> bool:
    """Return whether a hook returns something other than None."""
    if "return" in hook.__annotations__:
        return _find_returned(hook) is not None
    code = inspect.getsource(hook)
    return "return" in code
