"""functorch.einops._parsing: the parser of patterns, under PyTorch's name for it."""

from ....func.axis_pattern import (
    AnonymousAxis, ParsedExpression, _ellipsis, comma_separate, parse_pattern,
    validate_rearrange_expressions,
)

__all__ = ["AnonymousAxis", "ParsedExpression", "_ellipsis", "comma_separate", "parse_pattern",
           "validate_rearrange_expressions"]
