"""`Trainer`: fits, evaluates and predicts with a net, an optimizer and a loss."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ..nn import Module
from ..optim import Optimizer
from .checkpointing.run_state import collect_state, restore_accumulation, restore_objects
from .events import scope
from .events.handler_arguments import step_of
from .events.scope import Stage
from .loop.attach import as_list
from .loop.evaluation import join, observe, sweep
from .loop.loop import Loop
from .state.data import check_paired, get_inputs, is_arrays, count_batches, as_loader
from .state.data_limits import set_aside
from .state.epoch_numbers import Measures
from .state.fit_data import build_training_loader, build_validation_loaders
from .state.history import History
from .training_step.model_loss import weigh_classes
from .training_step.supervised import Supervised
from .training_step.trainable_module import TrainableModule, attach_module, parse_optimizers
from .training_step.validation import check_trainable, as_loss, as_optimizer

if TYPE_CHECKING:
    from ..doctor import Doctor
    from .reporting.model_summary import ModelSummary

F = TypeVar("F", bound=Callable[..., Any])


def _part(name: str) -> Any:
    """Return a property for a part of the step; setting it rebuilds the step."""

    def change(trainer: Trainer, value: Any) -> None:
        setattr(trainer, name, value)
        trainer.supervised.renew()

    return property(operator.attrgetter(name), change)


class Trainer(Loop):
    """Trains `net`: batches are (input, target), a step lowers `loss(net(input), target)`.

    `optimizer` is an optimizer, its name, or a dict of several; `loss` a function, a module or a
    name in nn.functional; `metrics` whatever `flambeau.train.metrics.adapt` takes; `precision`
    float32, or bfloat16 or float16 for autocast. `accumulate` batches make one update; gradients
    are clipped to `clip_norm` or `clip_value`. With `weighted`, batches are (input, target, weight
    of each sample). With `compile` the step is compiled if possible; handlers of forward, backward
    and optim make it run eagerly. With `doctor`, the first fit is watched, and runs eagerly:
    `trainer.doctor.findings`.

    Batches may be dicts of named inputs, with the target under "labels", "target" or "y". Without
    a `loss`, the net gets the whole batch and its output holds the loss, as in transformers:
    `model(**batch).loss`. A TrainableModule brings its own step and optimizers.

    >>> from flambeau.train import Trainer
    >>> net = nn.Linear(2, 1)
    >>> trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), "mse", compile=False)
    >>> x = torch.randn(64, 2)
    >>> history = trainer.fit((x, x.sum(1, keepdim=True)), epochs=20)
    >>> history[-1]["loss"] < history[0]["loss"]
    True
    """

    def __init__(
        self,
        net: Module | None,
        optimizer: Optimizer | str | Mapping[str, Optimizer] | Iterable[Optimizer] | None = None,
        loss: Callable[..., Any] | str | None = None,
        *,
        metrics: Any = None,
        callbacks: Iterable[Any] = (),
        device: Any = None,
        compile: bool = True,
        precision: Any = None,
        accumulate: int = 1,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        doctor: bool = False,
        weighted: bool = False,
    ) -> None:
        if net is not None and not isinstance(net, Module):
            raise TypeError(f"net is a flambeau.nn.Module, got {type(net).__name__}")
        self._net: Any = net if net is None or device is None else net.to(device)
        self.device = device
        schedules: list[tuple[Any, dict[str, Any]]] = []
        if isinstance(net, TrainableModule) and optimizer is None:
            optimizer, schedules = parse_optimizers(net.configure_optimizers())
        self._optimizer: Any = as_optimizer(optimizer, net)
        self._loss: Any = as_loss(loss)
        super().__init__()
        self.measures = Measures(metrics)
        self._own_step = False
        self.supervised = Supervised(
            self, compiled=compile, precision=precision, accumulate=accumulate,
            clip_norm=clip_norm, clip_value=clip_value, weighted=weighted,
        )
        self.doctor: Doctor | None = None
        if doctor:
            from ..doctor import Doctor

            self.doctor = Doctor()
        self.tracked: dict[str, Any] = {}
        self.averaged: Any = None  # replaces the net in validation, tests and predictions
        self._sweeping: Measures | None = None  # of the evaluation in progress
        self._eval_body: Callable[[Any], Any] = self.supervised.look
        self._valid_data: Any = None
        if isinstance(net, TrainableModule):
            attach_module(self, net)
        for callback in as_list(callbacks):
            self.use(callback)
        if schedules:
            from .callbacks.lr_schedule import Schedule

            for i, (scheduler, options) in enumerate(schedules):
                self.use(Schedule(scheduler, **options, name=f"lr_scheduler_{i}"))

    # ---- parts ----

    net: Any = _part("_net")
    optimizer: Any = _part("_optimizer")
    loss: Any = _part("_loss")

    @property
    def optimizers(self) -> Mapping[str, Any]:
        """The optimizers by name; a single one is called "optimizer"."""
        optimizers = self.optimizer
        if optimizers is None:
            return {}
        return optimizers if isinstance(optimizers, dict) else {"optimizer": optimizers}

    @property
    def own_step(self) -> bool:
        """Whether the step is the user's (`@trainer.step`)."""
        return self._own_step

    @property
    def metrics(self) -> Any:
        """The metrics of training, by name."""
        return self.measures.group

    @property
    def _looks_by_itself(self) -> bool:
        """Whether validation and tests use the default step, not a user's `@trainer.eval_step`."""
        return self._eval_body == self.supervised.look

    def take(self, step: Callable[[Any], Any]) -> None:
        """Use `step`, unless the user has set one."""
        if not self._own_step:
            self._body = step

    def track(self, **objects: Any) -> None:
        """Save and restore further objects that have a `state_dict`, such as a scheduler, with
        the run."""
        for name, tracked in objects.items():
            if not hasattr(tracked, "state_dict") or not hasattr(tracked, "load_state_dict"):
                raise TypeError(f"track({name}=...): {type(tracked).__name__} has no state_dict")
            self.tracked[name] = tracked

    def step(self, function: F) -> F:
        """Decorator: set a custom step `(run, batch)` that does everything, including updates.

        It may return a loss, a dict of numbers, or (loss, y_pred, y) to feed the metrics.
        """
        body = step_of(function, self)

        def measured(batch: Any) -> Any:
            output = body(batch)
            self.measures.record(self.state, output)
            return output

        self._body, self._own_step = measured, True
        return function

    def eval_step(self, function: F) -> F:
        """Decorator: set the step of validation and tests; it returns the same as a step."""
        self._eval_body = step_of(function, self)
        return function

    # ---- training ----

    def fit(
        self, data: Any, valid: Any = None, epochs: int = 1, *, batch_size: int | None = None,
        shuffle: bool | None = None, callbacks: Iterable[Any] = (), resume: Any = None,
        progress: bool | str | None = None, validation_split: float | None = None,
        validate_every: int | None = None, class_weight: Any = None, limit: float | None = None,
        max_steps: int | None = None, overfit: int | None = None, fast: bool = False,
        gradient_checkpointing: Any = False,
    ) -> History:
        """Train on a loader, a dataset or arrays; return the logs of every epoch.

        Args:
            data: a loader, a dataset or arrays `(x, y)`; `fit(x, y, epochs)` is the same as
                `fit((x, y), None, epochs)`. Datasets and arrays are shuffled, and come in batches
                of 32 unless `batch_size` says otherwise.
            valid: data to evaluate at the end of every epoch, or a dict of several, whose names
                become part of the numbers' names (`valid_noisy_loss`).
            validation_split: share of the samples, the last ones, to use as `valid`.
            validate_every: also evaluate every this many steps.
            epochs: the last epoch, counted from 1 or from the epoch of `load_state_dict`.
            callbacks: attached for this fit only.
            resume: a folder, or a checkpoint in it. The run saves itself there; the same call in
                another process continues from there, bit for bit as if it had not been
                interrupted. A Checkpoint callback for that folder sets what is saved and when.
            progress: True shows a bar in a terminal or notebook and lines elsewhere; False shows
                nothing; a string is the kind of a `Progress`.
            class_weight: weights of the loss's classes: a tensor, a list or {class: weight}.
            limit: use only the first batches: a number, or a share up to 1.0.
            max_steps: stop after this many steps.
            overfit: train repeatedly on the first `overfit` batches, to see whether the net can
                learn them; they are also the validation data.
            fast: run one batch of training and one of validation, to check that everything runs.
            gradient_checkpointing: recompute blocks in backward instead of storing their
                activations: True for the layers of each ModuleList (or Sequential), a class of
                modules, or their names. Takes about a third more time.

        Raises:
            ValueError: before the first step, for data without a batch, a net without trainable
                parameters, or an optimizer of other parameters; in it, for a non-scalar loss.
        """
        if is_arrays(data) and not isinstance(data, tuple) and is_arrays(valid):
            data, valid = (data, valid), None
        if validation_split is not None:
            if valid is not None:
                raise ValueError("pass valid or validation_split, not both")
            data, valid = set_aside(data, validation_split)
        if fast:
            limit, epochs = 1, 1
        loader = build_training_loader(
            data, batch_size, shuffle, limit, overfit, is_paired=not self._own_step)
        self.averaged = None
        self._valid_data = build_validation_loaders(
            valid, batch_size, limit, is_paired=self._looks_by_itself)
        if overfit is not None:
            self._valid_data = loader
        if not self._own_step:
            check_trainable(self)
        if self.net is not None:
            self.net.train()
        callbacks = as_list(callbacks)
        attached = [*callbacks, *(handle.function for handle in self.handlers.handles)]
        if validate_every is not None and self._valid_data is None:
            raise ValueError("validate_every needs validation data: valid=...")
        from .callbacks.fit_options import build_callbacks

        callbacks += build_callbacks(attached, progress, max_steps, validate_every)
        if resume is not None:
            from .checkpointing.resume import add_resume

            attached = [handle.function for handle in self.handlers.handles]
            callbacks = add_resume(resume, attached, callbacks)
        from .training_step.gradient_checkpointing import recompute_blocks

        recomputation = recompute_blocks(self, gradient_checkpointing)
        with self._apply_class_weights(class_weight), self._let_doctor_watch(), recomputation:
            return self._run(loader, epochs, callbacks)

    @contextmanager
    def _apply_class_weights(self, class_weight: Any) -> Iterator[None]:
        """Apply class weights to the loss within this context."""
        if class_weight is None:
            yield
            return
        unweighted = self.loss
        self.loss = weigh_classes(unweighted, class_weight)
        try:
            yield
        finally:
            self.loss = unweighted

    def validate(self) -> dict[str, Any]:
        """Evaluate this fit's validation data now; return the numbers by prefixed name."""
        data = self._valid_data
        if data is None:
            raise ValueError("validate: fit has no validation data")
        loaders = data if isinstance(data, dict) else {"": data}
        metrics: dict[str, Any] = {}
        epochs_left = (self.state.epochs or 0) - self.state.epoch + 1
        for name, loader in loaders.items():
            self.supervised.expect(epochs_left * (count_batches(loader) or 0))
            prefix = f"valid_{name}_" if name else "valid_"
            metrics.update(self._evaluate_stage(scope.valid, loader, self.state.epoch, prefix))
        return metrics

    @contextmanager
    def _let_doctor_watch(self) -> Iterator[None]:
        """Let the doctor, if requested, watch the first fit."""
        if self.doctor is None or self.doctor.session.ended:
            yield
            return
        for optimizer in self.optimizers.values():
            self.doctor.session.adopt(optimizer)
        with self.doctor:
            yield

    def exact(self, wanted: bool = True) -> None:
        """Make the following steps bit-exact in every run; a compiled step is compiled before it
        is used, not in the background."""
        super().exact(wanted)
        self.supervised.renew()

    def _forget(self) -> None:
        super()._forget()
        self.supervised.kinds.load_state_dict({})
        self.supervised.look_kinds.load_state_dict({})

    def update_parts(self) -> None:
        """Run the step in parts if its parts have listeners."""
        self.supervised.choose()

    def _begin_epoch(self) -> None:
        self.measures.reset()
        self.supervised.pending = 0
        self.supervised.attend()

    def _run_epoch(self, data: Any, position: dict[str, Any] | None) -> None:
        self._train(data, position)
        if self._valid_data is not None and self._stopping is None:
            self.validate()

    def _finish_steps(self) -> None:
        if self._stopping is None:
            self.supervised.flush()
        if self._completed:
            self.state.metrics.update(self.measures.compute())

    def train_on_batch(self, *batch: Any) -> dict[str, Any]:
        """Run a step on a batch, (x, y) or other, and return its numbers.

        Step events fire; run and epoch events do not.
        """
        if not self._own_step:
            check_trainable(self)
        if self.net is not None:
            self.net.train()
        self.supervised.attend()
        epoch_measures, self.measures = self.measures, self.measures.copy()
        try:
            self._run_steps(iter([batch[0] if len(batch) == 1 else batch]))
            return self.measures.compute()
        finally:
            self.measures = epoch_measures

    @property
    def logs(self) -> dict[str, Any]:
        """The numbers of this epoch so far; during training or an evaluation, the batch's loss,
        the current metrics, and the batch's number and size."""
        state, measures = self.state, self.measures
        position = {"batch": state.batch_number, "size": state.size}
        if self._sweeping is not None:
            measures, position = self._sweeping, {"size": state.size}
            if not measures.weights:
                return dict(state.metrics)
        elif not self._stepping or not self._completed or not state.training:
            return dict(state.metrics)
        loss = {} if state.loss is None else {"loss": float(state.loss)}
        return {**position, **state.metrics, **loss, **measures.compute_running()}

    # ---- looking ----

    def _evaluate_stage(self, stage: Stage, data: Any, n: int, prefix: str) -> dict[str, Any]:
        measures = self.measures.copy()
        self.supervised.attend()
        with observe(self), self.scope(stage, n):
            outer, self._sweeping = self._sweeping, measures
            try:
                count = sweep(
                    self, stage, data, self._eval_body,
                    lambda output: measures.record(self.state, output),
                )
            finally:
                self._sweeping = outer
            if not count:
                raise ValueError(f"{stage}: there were no batches")
            metrics = measures.compute(prefix)
            if stage is not scope.valid or not self.stopping:
                self.state.metrics.update(metrics)
            return metrics

    def evaluate(
        self, data: Any, *, batch_size: int | None = None, prefix: str = "test_"
    ) -> dict[str, Any]:
        """Return loss and metrics over data, in eval mode, by prefixed name."""
        if self._looks_by_itself:
            check_paired(data, "evaluate")
        loader = as_loader(data, batch_size, who="evaluate")
        return self._evaluate_stage(scope.test, loader, self._count("test"), prefix)

    def predict(
        self, data: Any, *, batch_size: int | None = None, labelled: bool | None = None
    ) -> Any:
        """Return the net's outputs over arrays, a dataset or a loader, concatenated on axis 0.

        Targets in batches are ignored. Batches of two parts are taken as (input, target) unless
        `data` is arrays.
        """
        if labelled is None:
            labelled = not is_arrays(data)
        loader = as_loader(data, batch_size, who="predict")
        self.supervised.attend()
        outputs: list[Any] = []
        has_several = isinstance(data, tuple) and len(data) > 1 and not labelled
        with observe(self), self.scope(scope.predict, self._count("predict")):
            try:
                sweep(
                    self, scope.predict, loader,
                    lambda x: self.supervised.predict(get_inputs(x, labelled)), outputs.append,
                )
            except TypeError as error:
                if has_several:
                    error.add_note(f"predict took all {len(data)} arrays for inputs of the net: "
                                   "predict(x) takes no target")
                raise
        if not outputs:
            raise ValueError("predict: there were no batches")
        return join(outputs)

    # ---- showing ----

    def __repr__(self) -> str:
        from .reporting.trainer_display import describe

        return describe(self)

    def _repr_html_(self) -> str:
        from .reporting.trainer_display import describe_as_html

        return describe_as_html(self)

    def summary(self, batch: Any = None) -> ModelSummary:
        """Return the net's layers with output shapes, parameters, multiply-adds and memory.

        `batch` holds inputs to run the net on: a tensor, a tuple of arguments, or a dict of named
        ones; by default, the inputs of the last batch of `fit`, if any.

        >>> from flambeau.train import Trainer
        >>> Trainer(nn.Linear(4, 2), "sgd", "mse").summary(torch.zeros(8, 4))
        layer            output shape  parameters  multiply-adds
        Linear (Linear)  (8, 2)                10             64
        10 parameters; 0.00 MB of parameters; 64 multiply-adds a pass; 0.00 MB of outputs
        """
        from .reporting.model_summary import summarize

        if self.net is None:
            raise ValueError("summary: the trainer has no net")
        if batch is None and self.state.batch is not None:
            batch = self.supervised.prepare_inputs(self.state.batch)
        return summarize(self.net, batch)

    # ---- saving ----

    def save(self, path: Any) -> None:
        """Write `state_dict()` to a file or URL (`s3://...`), for `load`.

        >>> from flambeau.train import Trainer
        >>> trainer = Trainer(nn.Linear(4, 2), "sgd", "mse", compile=False)
        >>> trainer.save("runs/trainer.pt")
        >>> trainer.load("runs/trainer.pt")
        """
        from .checkpointing.storage import as_location, write_state

        write_state(self.state_dict(), as_location(path))

    def load(self, path: Any) -> None:
        """Read a file that `save` wrote; the next fit continues from there."""
        from .checkpointing.storage import as_location, read_state

        self.load_state_dict(read_state(as_location(path)))

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the net, of a loss with parameters or buffers, of optimizers and
        tracked objects, and the position of the run."""
        saved = super().state_dict()
        saved["measures"] = self.measures.state_dict()
        return collect_state(self, saved)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a state; the next fit continues from its position."""
        restore_objects(self, saved)
        super().load_state_dict(saved["run"])
        self.measures.load_state_dict(saved["run"]["measures"])
        restore_accumulation(self, saved)
