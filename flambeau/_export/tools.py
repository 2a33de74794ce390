"""torch._export.tools: which submodules of a module can be exported."""

from __future__ import annotations

import logging
from typing import Any

from ..export.trace import export
from ..native.foundation.user_frames import warn
from ..nn.module import Module

__all__ = ["report_exportability"]

log = logging.getLogger(__name__)
Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def report_exportability(
    mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    strict: bool = True, pre_dispatch: bool = False,
) -> dict[str, Exception | None]:
    """Return the error of each module that cannot be exported, by path; None for those that can.

    A module that can be exported is not searched further, and each class is tried once.
    """
    inputs = _record_inputs(mod, args, kwargs or {})
    report: dict[str, Exception | None] = {}
    tried: set[type] = set()

    def visit(module: Module, path: str) -> None:
        if type(module) in tried:
            return
        tried.add(type(module))
        if path in inputs:
            error = _try_export(module, inputs[path], strict)
            report[path] = error
            if error is None:
                return
            log.warning("Failed exporting `%s` with exception: %s", path, repr(error))
        for name, child in module.named_children():
            visit(child, f"{path}.{name}" if path else name)

    visit(mod, "")
    log.warning("Found %d export issues", sum(error is not None for error in report.values()))
    return report


def _try_export(module: Module, inputs: Inputs, strict: bool) -> Exception | None:
    try:
        export(module, *inputs, strict=strict)
    except Exception as error:
        return error
    return None


def _record_inputs(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Inputs]:
    """Run a module once, and return the arguments of its submodules by path."""
    paths = {module: path for path, module in mod.named_modules()}
    result: dict[str, Inputs] = {"": (args, kwargs)}

    def note(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        result[paths[module]] = args, kwargs

    handles = [module.register_forward_pre_hook(note, with_kwargs=True)
               for module in paths if module is not mod]
    try:
        mod(*args, **kwargs)
    except Exception as error:
        warn(f"Failed to generate submodule inputs because of the following error:\n{error}")
    finally:
        for handle in handles:
            handle.remove()
    return result
