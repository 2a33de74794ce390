"""What the submodules of a module are called with."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from ...autograd import no_grad
from ...nn.module import Module
from .._compatibility import compatibility

__all__ = ["generate_inputs_for_submodules"]


@compatibility(is_backward_compatible=False)
def generate_inputs_for_submodules(
    model: Module, inputs: Sequence[Any], target_submodules: Iterable[str],
    deepcopy: bool = False,
) -> dict[str, Any]:
    """Run a model and return the arguments that each of the named submodules was called with.

    Arguments:
        model: the module to run, without gradients.
        inputs: its arguments.
        target_submodules: paths of submodules. A module with two paths has the last one's name.
        deepcopy: return copies, which later writes do not change.

    >>> from flambeau.fx.passes.splitter_base import generate_inputs_for_submodules
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 1))
    >>> generate_inputs_for_submodules(net, [torch.ones(3, 2, 2)], ["1"])["1"][0].shape
    torch.Size([3, 4])
    """
    names = {module: name for name, module in model.named_modules()}
    targets = set(target_submodules)
    seen: dict[str, Any] = {}

    def note(module: Module, arguments: tuple[Any, ...]) -> None:
        seen[names[module]] = copy.deepcopy(arguments) if deepcopy else arguments

    handles = [module.register_forward_pre_hook(note)
               for name, module in model.named_modules() if name in targets]
    try:
        with no_grad():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return seen
