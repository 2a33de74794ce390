"""Rule: one check. A subclass says what it looks for, in prose and in four programs, and
overrides the events that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..finding import Level, Place
from ..graph import find_module, find_spot
from ..places import Spot, place_of

if TYPE_CHECKING:
    from ..events import Backward, LossCall, ModuleCall, Statistic, Tokens, Update
    from ..session import Session


class Rule:
    """A check.

    `id`: its name for users. `level`: what its findings prove. `needs`: the events without which
    it cannot judge. `title`: the mistake, in a line. `why`: what goes wrong, and when the check
    is silent. `fix`: what to write instead. `broken` is a program with the mistake, whose line
    ends in `# <-`, `fixed` an edit of it without; `healthy` are programs that look suspicious
    and are right. Programs follow the prelude in programs.py.
    """

    id: ClassVar[str]
    level: ClassVar[Level]
    needs: ClassVar[tuple[str, ...]] = ()
    title: ClassVar[str]
    why: ClassVar[str]
    fix: ClassVar[str]
    broken: ClassVar[str]
    fixed: ClassVar[str]
    healthy: ClassVar[tuple[str, str]]

    EVENTS: ClassVar[tuple[str, ...]] = (
        "on_module_constructed", "on_call", "on_layer", "on_mode", "on_loss", "on_backward",
        "on_gradient",
        "after_backward", "on_zero_grad", "on_optimizer", "on_step", "after_step", "on_scheduler",
        "on_schedule", "on_clip", "on_unscale", "on_state", "on_load", "on_batch", "on_loader",
        "on_cut", "on_seed", "on_view", "on_compare", "on_threshold", "on_broadcast", "on_function",
        "on_grad_read", "on_embedding", "on_parameter", "on_empty", "on_distribution", "on_sample",
        "on_log_prob", "on_entropy", "on_mask", "on_operand", "on_addend", "on_best", "on_moved",
        "on_draw", "on_apply", "on_iterator", "on_data_set", "on_triangle", "on_statistic",
        "on_mixed", "on_alias", "on_collate", "on_slope", "on_spread",
        "on_checkpoint", "on_optimizer_load", "finish",
    )

    def __init__(self, session: Session) -> None:
        self.session = session

    def report(
        self, message: str, *places: Place | Spot | None, level: Any = None, fix: Any = None,
        **evidence: Any,
    ) -> None:
        """Report a finding. `places`: spots or places, the line to fix first; `level` and `fix`
        override the rule's own; `evidence`: values by name."""
        lines: dict[tuple[str, int], Place] = {}
        for location in places:
            place = location if isinstance(location, Place) else place_of(location)
            if place is not None:
                lines.setdefault((place.file, place.line), place)
        evidence = {
            name: list(value) if isinstance(value, list) else value
            for name, value in evidence.items() if value is not None
        }
        self.session.report(
            self.id, level or self.level, message, tuple(lines.values()), evidence,
            self.fix if fix is None else fix,
        )

    def report_when_run(self, message: str, place: Place, frame: Any, **more: Any) -> None:
        """Report a mistake read in the source once its line has run."""
        self.session.lines.when_run(place.file, place.line, frame,
                                    lambda: self.report(message, place, **more))

    def loss_constructor(self, call: LossCall) -> list[Spot | None]:
        """Return where the module of a loss was constructed; nothing for a call of the function."""
        return [self.session.built_at.get(call.module)] if call.is_of_module else []

    def origin(self, node: Any) -> list[Spot]:
        """Return the lines behind a node: its call, and its layer's constructor. The constructor is
        first, unless the call is in a forward method."""
        call_spot, layer = find_spot(node), find_module(node)
        spots = [] if call_spot is None else [call_spot]
        is_leaf = layer is not None and type(layer).__module__.startswith("flambeau.nn.modules") \
            and not layer._modules
        constructor = self.session.built_at.get(layer) if is_leaf else None
        if constructor is not None:
            spots.insert(1 if call_spot is not None and call_spot[0].co_name == "forward" else 0,
                         constructor)
        return spots

    # What a rule may be told; `Session` calls only what a class overrides.
    def on_module_constructed(self, module: Any, spot: Spot | None) -> None:
        """A module was constructed."""

    def on_call(self, call: ModuleCall) -> None:
        """A module was called from outside of any other."""

    def on_layer(self, call: ModuleCall) -> None:
        """A layer without children was called, while watched."""

    def on_mode(self, module: Any, training: bool, spot: Spot | None) -> None:
        """train() or eval() was called."""

    def on_loss(self, call: LossCall) -> None:
        """A loss function was called, while watched."""

    def on_backward(self, backward: Backward) -> None:
        """A backward pass is about to run."""

    def on_gradient(self, backward: Backward) -> None:
        """A pass of autograd.grad or func.grad is about to run that a program trains with: it asks
        for the gradients of all weights and adds to no `.grad`."""

    def after_backward(self, backward: Backward) -> None:
        """It has run."""

    def on_zero_grad(self, owner: Any, spot: Spot | None) -> None:
        """zero_grad() of an optimizer or a module is about to run."""

    def on_optimizer(self, optimizer: Any, spot: Spot | None) -> None:
        """An optimizer was constructed."""

    def on_step(self, update: Update) -> None:
        """An optimizer is about to update."""

    def after_step(self, update: Update) -> None:
        """It has updated."""

    def on_scheduler(self, scheduler: Any, spot: Spot | None) -> None:
        """A scheduler was constructed."""

    def on_schedule(self, scheduler: Any, spot: Spot | None, args: tuple[Any, ...]) -> None:
        """A scheduler has stepped."""

    def on_clip(self, parameters: list[Any], spot: Spot | None, limit: float) -> None:
        """Gradients are about to be clipped to a limit."""

    def on_unscale(self, scaler: Any, optimizer: Any, spot: Spot | None) -> None:
        """A GradScaler is about to unscale (`optimizer`), or has scaled a loss (None)."""

    def on_state(self, module: Any, state: Any, spot: Spot | None) -> None:
        """state_dict() of a module gave `state`."""

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        """load_state_dict() of a module is about to run."""

    def on_checkpoint(self, state: Any, spot: Spot | None) -> None:
        """torch.load gave `state`."""

    def on_optimizer_load(self, optimizer: Any, state: Any, spot: Spot | None) -> None:
        """load_state_dict() of an optimizer is about to run."""

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        """A loader gave a batch."""

    def on_loader(self, loader: Any, spot: Spot | None) -> None:
        """A DataLoader was constructed."""

    def on_iterator(self, loader: Any, spot: Spot | None) -> None:
        """A loop over a DataLoader begins."""

    def on_cut(self, method: str, tensor: Any, spot: Spot | None) -> None:
        """Something is taken out of the graph: by detach, data, item, numpy, tolist, tensor."""

    def on_seed(self, seed: Any, spot: Spot | None) -> None:
        """manual_seed was called."""

    def on_view(self, before: Any, after: Any, spot: Spot | None) -> None:
        """A tensor was reshaped, while watched."""

    def on_compare(self, a: Any, b: Any, result: Any, spot: Spot | None) -> None:
        """Two tensors were compared for equality, while watched."""

    def on_spread(self, a: Any, b: Any, spot: Spot | None) -> None:
        """A difference of two tensors without gradients is larger than both, while watched."""

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        """Another function of interest was called, while watched."""

    def on_apply(self, function: Any, args: tuple[Any, ...], result: Any,
                 spot: Spot | None) -> None:
        """A Function of the user's gave `result`, while watched."""

    def on_grad_read(self, tensor: Any) -> None:
        """The user's program asked for a `.grad`."""

    def on_threshold(self, tensor: Any, bound: float, spot: Spot | None) -> None:
        """A tensor was compared with a number by `>` or `>=`, while watched."""

    def on_broadcast(self, name: str, a: Any, b: Any, spot: Spot | None) -> None:
        """A recorded operator of two tensors enlarged both, while watched."""

    def on_embedding(self, tokens: Tokens) -> None:
        """An embedding looked rows up, while watched."""

    def on_mask(self, mask: Any, spot: Spot | None) -> None:
        """A tensor was compared with a number for equality, while watched."""

    def on_triangle(self, result: Any, spot: Spot | None) -> None:
        """triu() or tril() gave `result`, while watched."""

    def on_statistic(self, statistic: Statistic) -> None:
        """A statistic of the columns of a table was taken, while watched."""

    def on_mixed(self, name: str, tensor: Any, other: Any, fraction: float,
                 spot: Spot | None) -> None:
        """A tensor was scaled in place by a number between 0 and 1, or given its own memory by
        add_, lerp_ or copy_, while watched; `fraction` is the number, or that of the other."""

    def on_alias(self, result: Any, spot: Spot | None) -> None:
        """`.data` of a parameter was read, while watched."""

    def on_collate(self, collate: Any, samples: list[Any], batch: Any) -> None:
        """A collate function of the user's gave a batch of samples, while watched."""

    def on_slope(self, spots: tuple[Spot, ...]) -> None:
        """autograd.grad gave gradients without a graph: where, and the lines that called that."""

    def on_data_set(self, tensor: Any, spot: Spot | None) -> None:
        """`tensor.data = ...` was run, while watched."""

    def on_parameter(self, parameter: Any, source: Any, spot: Spot | None) -> None:
        """A Parameter was constructed from a tensor, while watched."""

    def on_empty(self, tensor: Any) -> None:
        """torch.empty gave memory, while watched."""

    def on_distribution(self, distribution: Any, logits: Any, spot: Spot | None) -> None:
        """A distribution over classes was constructed from logits, or from None, while watched."""

    def on_sample(self, distribution: Any, result: Any, spot: Spot | None) -> None:
        """sample() of a distribution with trained parameters gave `result`, while watched."""

    def on_log_prob(self, distribution: Any, value: Any, result: Any, spot: Spot | None) -> None:
        """log_prob() of a distribution was computed, while watched."""

    def on_entropy(self, result: Any, spot: Spot | None) -> None:
        """entropy() of a distribution was computed, while watched."""

    def on_operand(self, name: str, recorded: Any, constant: Any, spot: Spot | None) -> None:
        """A recorded operator of two tensors had one without a gradient, while watched."""

    def on_addend(self, constant: Any, spot: Spot | None) -> None:
        """A number without a gradient was added to, or taken off, one that is recorded, while
        watched."""

    def on_best(self, scores: Any, dim: int, indices: Any, spot: Spot | None) -> None:
        """argmax or max found the greatest along one axis, while watched."""

    def on_moved(self, name: str, before: Any, after: Any, spot: Spot | None) -> None:
        """A tensor was flipped, rotated or rolled, while watched."""

    def on_draw(self, tensor: Any, spot: Spot | None) -> None:
        """Random numbers were drawn, while watched."""

    def finish(self) -> None:
        """The program is over."""


def list_handlers(rules: Sequence[Rule], event: str) -> list[Callable[..., None]]:
    """The handlers of an event, of those rules that have one."""
    base = getattr(Rule, event)
    return [getattr(rule, event) for rule in rules if getattr(type(rule), event) is not base]
