"""CallPolicy: how the options of flambeau.compile affect calls."""

from __future__ import annotations

from typing import Any

from ...native.target.compile_costs import MAX_DYNAMIC_SPECIALIZATIONS, MAX_SPECIALIZATIONS
from ..capture.capture import has_peers


class CallPolicy:
    """Answers questions about the options of a compiled function."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        # Whether calls wait for compilation.
        self.is_synchronous = bool(options["mode"] == "now")
        # Whether the caller promised that the code has run before.
        self.is_settled = bool(options.get("settled", False))
        # Whether NumPy evaluates graphs, as a reference without machine code.
        self.evaluates = bool(options["backend"] == "evaluate")
        # Whether a step that cannot be compiled is an error.
        self.raises = bool(options["fullgraph"])
        # Whether it is an error, too, if Python code of the step has to run or an operator has no
        # native code. PyTorch's modes compile such steps.
        self.is_strict = self.raises and self.is_synchronous
        self.draws_by_counter = bool(options["random"] == "counter")
        self.is_dynamic = bool(options["dynamic"])

    @property
    def max_specializations(self) -> int:
        """The maximum number of specializations with their own programs."""
        return MAX_DYNAMIC_SPECIALIZATIONS if self.is_dynamic else MAX_SPECIALIZATIONS

    @property
    def may_follow(self) -> bool:
        """Whether calls may be followed if their Python must run."""
        return (self.options["follow"] is not False and not self.is_strict
                and not self.draws_by_counter and not has_peers())

    @property
    def may_grow(self) -> bool:
        """Whether calls may be followed because their arguments grow."""
        return self.may_follow and not self.evaluates

    @property
    def follows_without_trial(self) -> bool:
        """Whether calls are followed without measuring if that pays off."""
        return bool(self.options["follow"]) or self.evaluates
