"""The checks, by subject; `all_rules` gives the class of each id."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from .rule import Rule


@cache
def all_rules() -> dict[str, type[Rule]]:
    """Every check by its id."""
    result: dict[str, type[Rule]] = {}
    for subject in pkgutil.iter_modules(__path__):
        if not subject.ispkg:
            continue
        package = importlib.import_module(f"{__name__}.{subject.name}")
        for file in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{file.name}")
            for value in vars(module).values():
                is_local = getattr(value, "__module__", None) == module.__name__
                if is_local and isinstance(value, type) and issubclass(value, Rule):
                    result[value.id] = value
    return dict(sorted(result.items()))
