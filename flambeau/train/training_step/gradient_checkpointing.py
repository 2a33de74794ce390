"""Gradient checkpointing: recompute the outputs of blocks in backward instead of storing them.

Chen et al., 2016 (arXiv:1604.06174).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...autograd.mode import is_grad_enabled
from ...nn import Module, ModuleList, Sequential
from ...utils.checkpoint import checkpoint
from ..events.suggestions import suggest

if TYPE_CHECKING:
    from ..trainer import Trainer


def find_blocks(net: Module, wanted: Any) -> list[Module]:
    """Return the blocks to recompute: True for the layers of every ModuleList, or, without any, of
    every outermost Sequential; a class, or names.

    Raises ValueError if there are none.
    """
    modules: dict[str, Module] = dict(net.named_modules())
    blocks: list[Module]
    if wanted is True:
        stacks = [module for module in modules.values() if isinstance(module, ModuleList)]
        blocks = [block for stack in stacks for block in stack.children()]
        blocks = blocks or _find_sequential_layers(net)
    elif isinstance(wanted, type):
        blocks = [module for module in modules.values() if isinstance(module, wanted)]
    elif isinstance(wanted, Iterable):
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in wanted:
            if name not in modules:
                raise ValueError(
                    f"gradient_checkpointing: no module '{name}'{suggest(name, modules)}")
        blocks = [modules[name] for name in wanted]
    else:
        raise TypeError(
            f"gradient_checkpointing is True, a class of modules or their names, got {wanted!r}"
        )
    blocks = [block for block in blocks if any(True for _ in block.parameters())]
    if not blocks:
        raise ValueError(
            f"gradient_checkpointing: {type(net).__name__} has no ModuleList or Sequential with "
            "layers; name the modules, or their class"
        )
    return blocks


def _find_sequential_layers(module: Module) -> list[Module]:
    if isinstance(module, Sequential):
        return list(module.children())
    return [layer for child in module.children() for layer in _find_sequential_layers(child)]


@contextmanager
def recompute_blocks(trainer: Trainer, wanted: Any) -> Iterator[None]:
    """Recompute these blocks of the trainer's net in each backward pass within this context.

    Steps run eagerly meanwhile: a compiled step already shares memory between its operators.
    """
    if not wanted:
        yield
        return
    blocks = find_blocks(trainer.net, wanted)
    supervised = trainer.supervised
    compiled, supervised.compiled = supervised.compiled, False
    for block in blocks:
        block.__dict__["forward"] = _wrap_in_checkpoint(block.forward)
    supervised.renew()
    try:
        yield
    finally:
        for block in blocks:
            block.__dict__.pop("forward", None)
        supervised.compiled = compiled
        supervised.renew()


def _wrap_in_checkpoint(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def run(*arguments: Any, **kwargs: Any) -> Any:
        if not is_grad_enabled():
            return forward(*arguments, **kwargs)
        return checkpoint(forward, *arguments, use_reentrant=False, **kwargs)

    return run
