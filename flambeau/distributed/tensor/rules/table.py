"""RULES: the sharding rule of each operator, by its name in aten.

An operator without a rule runs on whole tensors in every process.
"""

from __future__ import annotations

from ..propagation import Rule
from . import blocks, elements, pointwise, products, reductions, views

__all__ = ["RULES", "find_rule"]

RULES: dict[str, Rule] = {
    **pointwise.RULES, **reductions.RULES, **products.RULES, **views.RULES, **elements.RULES,
    **blocks.RULES,
}


def find_rule(name: str) -> Rule | None:
    """Return an operator's rule. In-place operators have those of the others."""
    rule = RULES.get(name)
    return RULES.get(name[:-1]) if rule is None and name.endswith("_") else rule
