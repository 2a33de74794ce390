"""A module that holds its step and its optimizers, the habit of Lightning's users."""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ..._namespace.settings import are_deterministic_algorithms_enabled
from ...nn import Module
from ...optim.lr_scheduler import LRScheduler
from ..events.other_libraries import METHODS
from ..events.scope import test, valid
from ..state.data import detach_tensors, move
from ..state.formatting import stage_of
from .model_loss import find_loss
from .step_function import Region, Step, build_clip, check_loss, compile_on_first_call

if TYPE_CHECKING:
    from ..trainer import Trainer


class TrainableModule(Module):
    """A network with its training step and its optimizers: `Trainer(module).fit(data)`.

    `training_step(batch, batch_idx)` returns the loss, or a dict with it under "loss" and further
    numbers; `configure_optimizers()` returns an optimizer, several, or the dict or pair of lists
    that Lightning takes, schedulers included. The trainer clears gradients, goes backward, clips
    and steps. The step is compiled like that of any Trainer; `self.log(...)` inside of it keeps it
    eager, numbers that it returns do not. `on_train_epoch_end(self)` and the like are called as
    a callback's. With `automatic_optimization = False` the step does all of it, with
    `self.optimizers()` and `self.manual_backward(loss)`.

    >>> from flambeau.train import Trainer
    >>> class Regression(TrainableModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = nn.Linear(2, 1)
    ...     def training_step(self, batch, batch_idx):
    ...         x, y = batch
    ...         return nn.functional.mse_loss(self.linear(x), y)
    ...     def configure_optimizers(self):
    ...         return torch.optim.SGD(self.parameters(), lr=0.1)
    >>> x = torch.randn(64, 2)
    >>> history = Trainer(Regression()).fit(x, x.sum(1, keepdim=True), 5, progress=False)
    >>> history[-1]["loss"] < history[0]["loss"]
    True
    """

    automatic_optimization = True
    _flambeau_step: ModuleStep | None = None

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """The loss of a batch, or a dict with it and further numbers."""
        self._flambeau_lacks("training_step(batch, batch_idx)")

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        """A loss, or a dict of numbers, of a batch of validation data, without gradients."""
        self._flambeau_lacks("validation_step(batch, batch_idx)")

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        """The same for `Trainer.evaluate`; by default that of validation."""
        return self.validation_step(batch, batch_idx)

    def configure_optimizers(self) -> Any:
        """The optimizers, and schedulers."""
        self._flambeau_lacks("configure_optimizers()")

    def _flambeau_lacks(self, method: str) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} has no {method}, which this run needs")

    # ---- what steps and hooks use ----

    @property
    def trainer(self) -> Trainer:
        """The trainer. Raises RuntimeError if the module has none."""
        if self._flambeau_step is None:
            raise RuntimeError(f"{type(self).__name__} is not attached to a Trainer")
        return self._flambeau_step.trainer

    @property
    def current_epoch(self) -> int:
        """The epoch's number, from 0 as in Lightning."""
        return max(self.trainer.state.epoch - 1, 0)

    @property
    def global_step(self) -> int:
        """The number of steps before this one."""
        return max(self.trainer.state.step - 1, 0)

    def log(self, name: str, value: Any, **display: Any) -> None:
        """Add a number to the epoch's logs: within a step, its mean over the epoch.

        `val_loss` becomes `valid_loss`, as everywhere in flambeau.train; Lightning's display
        options are ignored.
        """
        step = self._flambeau_step
        if step is None:
            return
        if step.collected is None:
            self.trainer.log(**{name: float(detach_tensors(value))})
        else:
            step.collected[_strip_stage(name)] = detach_tensors(value)

    def log_dict(self, values: Mapping[str, Any], **display: Any) -> None:
        """Add several numbers."""
        for name, value in values.items():
            self.log(name, value, **display)

    def optimizers(self) -> Any:
        """The optimizer, or the list of them."""
        optimizers = list(self.trainer.optimizers.values())
        return optimizers[0] if len(optimizers) == 1 else optimizers

    def manual_backward(self, loss: Any, **options: Any) -> None:
        """Go backward from a loss, where `automatic_optimization` is False."""
        loss.backward(**options)


class ModuleStep:
    """The step of a trainer whose net is a TrainableModule."""

    def __init__(self, trainer: Trainer, module: TrainableModule) -> None:
        self.trainer, self.module = trainer, module
        self.collected: dict[str, Any] | None = None  # what `log` was called with in this step
        self._evaluation, self._looked = module.validation_step, 0
        self._takes_index = {
            name: _reads_index(getattr(type(module), name))
            for name in ("training_step", "validation_step", "test_step")
        }
        self._step: Step | None = None
        self._settings = True, False  # whether the step is compiled, and whether bit-exact
        trainer.attach(valid.start, lambda: self._begin(module.validation_step))
        trainer.attach(test.start, lambda: self._begin(module.test_step))

    def _begin(self, evaluation: Callable[..., Any]) -> None:
        self._evaluation, self._looked = evaluation, 0

    def train(self, batch: Any) -> Any:
        """Train on a batch."""
        index = self.trainer.state.batch_number - 1
        supervised = self.trainer.supervised
        settings = supervised.compiled, are_deterministic_algorithms_enabled()
        if self._step is None or settings != self._settings:
            self._step, self._settings = self._build_single_step(settings[1]), settings
        first, last = not supervised.pending, supervised.pending + 1 == supervised.accumulate
        if supervised.accumulate > 1:
            supervised.pending = 0 if last else supervised.pending + 1
        arguments = self._build_arguments("training_step", batch, index)
        step = self._step
        return self._collect_numbers(lambda: step(arguments, first, last))

    def evaluate(self, batch: Any) -> Any:
        """Evaluate a batch of validation or test data."""
        index, self._looked = self._looked, self._looked + 1
        evaluation = self._evaluation
        arguments = self._build_arguments(evaluation.__name__, batch, index)
        return self._collect_numbers(lambda: evaluation(*arguments))

    def _build_arguments(self, method: str, batch: Any, index: int) -> tuple[Any, ...]:
        """Return a step's arguments. An index that its code never reads is always 0, so one program
        serves all batches."""
        if self.trainer.device is not None:
            batch = move(batch, self.trainer.device)
        takes = self._takes_index[method]
        return (batch,) if takes is None else (batch, index if takes else 0)

    def _collect_numbers(self, call: Callable[[], Any]) -> Any:
        self.collected = {}
        try:
            output = call()
            logged = self.collected
        finally:
            self.collected = None
        if not logged:
            return output
        if isinstance(output, dict):
            return {**logged, **output}
        return logged if output is None else {**logged, "loss": output}

    def _build_single_step(self, exact: bool) -> Step:
        trainer, supervised = self.trainer, self.trainer.supervised
        if supervised.scaler is not None:
            raise NotImplementedError("TrainableModule with precision='float16'")
        step = build_module_step(
            self.module, tuple(trainer.optimizers.values()),
            build_clip(self.module, supervised.clip_norm, supervised.clip_value),
            supervised.region, supervised.accumulate,
        )
        if not supervised.compiled or not self.module.automatic_optimization:
            return step
        if exact or supervised.accumulate > 1:
            from .deterministic import ExactStep  # brings the compiler

            optimizers = tuple(trainer.optimizers.values())
            return ExactStep(step, (self.module,), optimizers, supervised.kinds)
        return compile_on_first_call(step, self._adopt)

    def _adopt(self, step: Step, seconds: float) -> None:
        self._step = step


def build_module_step(
    module: TrainableModule, optimizers: tuple[Any, ...], clip: Callable[[], None] | None,
    region: Region, count: int,
) -> Step:
    """The function of `training_step`'s arguments that trains on one of `count` batches which
    make an update together: the first begins with new gradients, the last makes the update."""

    def manual_step(arguments: tuple[Any, ...], first: bool, last: bool) -> Any:
        with region():
            return detach_tensors(module.training_step(*arguments))

    def train_step(arguments: tuple[Any, ...], first: bool, last: bool) -> Any:
        if first:
            for optimizer in optimizers:
                optimizer.zero_grad()
        with region():
            output = module.training_step(*arguments)
        loss: Any = find_loss(output)
        check_loss(loss)
        (loss if count == 1 else loss / count).backward()
        if last:
            if clip is not None:
                clip()
            for optimizer in optimizers:
                optimizer.step()
        return detach_tensors(output)

    return train_step if module.automatic_optimization else manual_step


def attach_module(trainer: Trainer, module: TrainableModule) -> None:
    """Make the module's steps the trainer's, and attach its hooks and schedulers."""
    step = ModuleStep(trainer, module)
    module.__dict__["_flambeau_step"] = step  # neither a submodule nor saved
    trainer.step(step.train)
    trainer.eval_step(step.evaluate)
    names = [name for name in dir(type(module)) if name in METHODS]
    if names:
        hooks = types.SimpleNamespace(**{name: getattr(module, name) for name in names})
        trainer.use(hooks)


def parse_optimizers(configured: Any) -> tuple[Any, list[tuple[Any, dict[str, Any]]]]:
    """What `configure_optimizers` returned, as optimizers and (scheduler, options of Schedule).

    Takes an optimizer, several, `{"optimizer": ..., "lr_scheduler": ...}`, or a pair of lists.
    """
    if isinstance(configured, dict) and "optimizer" in configured:
        scheduler = configured.get("lr_scheduler")
        return configured["optimizer"], [] if scheduler is None else [_schedule_of(scheduler)]
    pair = isinstance(configured, tuple) and len(configured) == 2
    if pair and all(isinstance(part, (list, tuple)) for part in configured):
        optimizers, schedulers = configured
        optimizers = optimizers[0] if len(optimizers) == 1 else list(optimizers)
        return optimizers, [_schedule_of(scheduler) for scheduler in schedulers]
    return list(configured) if isinstance(configured, tuple) else configured, []


def _schedule_of(scheduler: Any) -> tuple[Any, dict[str, Any]]:
    options = {} if isinstance(scheduler, LRScheduler) else dict(scheduler)
    scheduler = options.pop("scheduler", scheduler)
    translated: dict[str, Any] = {}
    if "interval" in options:
        translated["when"] = options["interval"]
    if "monitor" in options:
        translated["monitor"] = _build_full_name(options["monitor"])
    return scheduler, translated


def _build_full_name(name: str) -> str:
    return name.replace("val_", "valid_", 1) if name.startswith("val_") else name


def _strip_stage(name: str) -> str:
    """A number's name without the stage that the trainer puts in front of it."""
    return stage_of(_build_full_name(name).removeprefix("train_"))[1]


def _reads_index(function: Callable[..., Any]) -> bool | None:
    """Whether a step's code reads its second argument; None if it takes none."""
    parameters = list(inspect.signature(function).parameters.values())[1:]  # without self
    if len(parameters) < 2:
        varied = bool(parameters) and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
        return True if varied else None
    code = getattr(function, "__code__", None)
    name = parameters[1].name
    if not isinstance(code, types.CodeType) or name in code.co_cellvars:
        return True
    reads = (i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD"))
    return any(name in argument if isinstance(argument, tuple) else argument == name
               for argument in reads)
