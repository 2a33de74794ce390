"""Observers of events that happen once per step or less: module calls, optimizers, loaders.

Each replaces a library function, calls the original and sends an event to the session.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from ...autograd.mode import MODE
from ...native.foundation.user_frames import find_user_frame, is_internal
from ...nn.module import Module
from ...optim import optimizer as optimizers
from ...tensor.tensor import Tensor
from ..events import ModuleCall, Update
from ..places import Spot, find_constructor, find_spot
from . import Observer
from .passes import PassObserver

if TYPE_CHECKING:
    from ..session import Session


def step_targets(session: Session) -> list[tuple[Any, Observer]]:
    """Return the functions that each step calls, with their observers."""
    modules = ModuleObserver(session)
    passes = PassObserver(session)
    clipping = importlib.import_module("flambeau.nn.utils.clip_grad")
    scaler = importlib.import_module("flambeau.amp.grad_scaler").GradScaler
    loaders = importlib.import_module("flambeau.utils.data.iterator")
    fetchers = importlib.import_module("flambeau.utils.data._utils.fetch")
    compiled = importlib.import_module("flambeau.compiler.driver.compiled_function").Compiled
    return [
        (Module.__call__, modules.call),
        (Module._call_impl, modules.call),
        (Module.zero_grad, _report_before(session, "on_zero_grad", _read_owner)),
        *passes.targets(),
        (optimizers.Optimizer.zero_grad, _report_before(session, "on_zero_grad", _read_owner)),
        (clipping.clip_grad_norm_, _clip_observer(session)),
        (clipping.clip_grad_value_, _clip_observer(session)),
        (scaler.scale, _report_before(session, "on_unscale", _read_unscaled)),
        (scaler.unscale_, _report_before(session, "on_unscale", _read_unscaled)),
        (loaders._BaseDataLoaderIter.__next__, _observe_batch(session)),
        (fetchers._MapDatasetFetcher.fetch, _collate_observer(session)),
        (compiled._flambeau_serve, _observe_compiled_call(session)),
        (compiled.attempt, _return_miss),
    ]


def list_rare_targets(session: Session) -> list[tuple[Any, Observer]]:
    """Return the functions to patch for the whole session, with their observers."""
    modules = ModuleObserver(session)
    targets: list[tuple[Any, Observer]] = [
        (Module.__init__, modules.construct),
        (Module.train, modules.mode),
        (Module.state_dict, _observe_state(session)),
        (Module.load_state_dict, _report_before(session, "on_load", _read_loaded_state)),
        (optimizers.Optimizer.__init__, _observe_optimizer(session)),
        (optimizers.Optimizer.load_state_dict,
         _report_before(session, "on_optimizer_load", _read_optimizer_state)),
        (importlib.import_module("flambeau").load, _observe_checkpoint(session)),
    ]
    schedulers = importlib.import_module("flambeau.optim.lr_scheduler.scheduler")
    names = importlib.import_module("flambeau.optim.lr_scheduler")
    for cls in (schedulers.LRScheduler, names.ReduceLROnPlateau):
        targets.append((cls.__init__, _observe_construction(session, "on_scheduler")))
    steps = {
        vars(cls)["step"] for cls in vars(names).values()
        if isinstance(cls, type) and issubclass(cls, schedulers.LRScheduler)
        and "step" in vars(cls)
    }
    targets += [(step, _schedule_observer(session)) for step in steps]
    loaders = importlib.import_module("flambeau.utils.data.iterator")
    targets.append((loaders._BaseDataLoaderIter.__init__, _observe_iterator(session)))
    loader = importlib.import_module("flambeau.utils.data.dataloader").DataLoader
    targets.append((loader.__init__, _observe_construction(session, "on_loader")))
    samplers = importlib.import_module("flambeau.utils.data").WeightedRandomSampler
    targets.append((samplers.__init__, _note_construction(session)))
    namespace = importlib.import_module("flambeau")
    targets.append((namespace.manual_seed, _report_before(session, "on_seed", _read_seed)))
    return targets


# ------------------------------------------------------------------------- compiled steps


def _observe_compiled_call(session: Session) -> Observer:
    """Run a compiled function as written while steps are watched: its compiled program would hide
    them."""
    from ...native.runtime.frameless_call import DIRECT

    def call(original: Callable, args: tuple, kwargs: dict) -> Any:
        session.compiled = True
        return DIRECT

    return call


def _return_miss(original: Callable, args: tuple, kwargs: dict) -> Any:
    from ...native.runtime.frameless_call import MISS

    return MISS


# ------------------------------------------------------------------------- modules


class ModuleObserver:
    """Keeps the stack of running modules, and reports calls from outside."""

    def __init__(self, session: Session) -> None:
        self.session, self.stack = session, session.stack

    def call(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`Module.__call__`."""
        session, stack, module = self.session, self.stack, args[0]
        if session.busy or threading.get_ident() != session.thread or (
            stack and stack[-1] is module
        ):
            return original(*args, **kwargs)
        if not stack:
            session.call_spot = find_spot()
        stack.append(module)
        try:
            output = original(*args, **kwargs)
        finally:
            stack.pop()
            if not stack:
                spot, session.call_spot = session.call_spot, None
        if not stack:
            self.tell("on_call", module, args, kwargs, output, spot)
        elif session.watching and not module._modules and session.handlers["on_layer"]:
            self.tell("on_layer", module, args, kwargs, output, find_spot())
        return output

    def tell(
        self, event: str, module: Any, args: tuple, kwargs: dict, output: Any, spot: Spot | None
    ) -> None:
        """Emit the event of a finished call."""
        session = self.session
        if event == "on_call":
            if type(module).__module__.startswith("flambeau.nn.modules.loss"):
                return
            session.roots.setdefault(module, None)
            session.follow(module)
            if not module._modules and session.watching:
                self.tell("on_layer", module, args, kwargs, output, spot)
        call = ModuleCall(module, args[1:], kwargs, output, spot, MODE.grad,
                          session.clock.passes, session.updates)
        session.emit(event, call)

    def construct(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`Module.__init__`."""
        original(*args, **kwargs)
        session = self.session
        spot = None if session.busy else find_constructor(args[0])
        if spot is not None:
            session.built_at[args[0]] = spot
            session.emit("on_module_constructed", args[0], spot)

    def mode(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`Module.train`, which recurses into children: only the outermost call is reported."""
        session = self.session
        if session.busy or self.inside:
            return original(*args, **kwargs)
        self.inside = True
        try:
            result = original(*args, **kwargs)
        finally:
            self.inside = False
        session.wake()
        session.follow(args[0])
        mode = args[1] if len(args) > 1 else kwargs.get("mode", True)
        session.emit("on_mode", args[0], mode, find_spot())
        return result

    inside = False


# ------------------------------------------------------------------------- optimizers

_handles: list[Any] = []


def add_step_hooks(session: Session) -> None:
    """Register hooks that report the steps of every optimizer."""
    numbers = session.step_numbers
    pending: list[Update] = []

    def before(optimizer: Any, args: tuple, kwargs: dict) -> None:
        if session.busy:
            return
        numbers[optimizer] = number = numbers.get(optimizer, 0) + 1
        session.adopt(optimizer)
        update = Update(optimizer, number, find_spot(), session.watching)
        pending.append(update)
        session.emit("on_step", update)

    def after(optimizer: Any, args: tuple, kwargs: dict) -> None:
        if session.busy or not pending:
            return
        session.updates += 1
        session.emit("after_step", pending.pop())
        if session.steps is not None and session.updates >= session.steps:
            raise StopWatching

    _handles.append(optimizers.register_optimizer_step_pre_hook(before))
    _handles.append(optimizers.register_optimizer_step_post_hook(after))


_HEARTBEAT_UPDATES = 64  # between two checks of the clock while the session rests


def add_heartbeat(session: Session) -> None:
    """Count updates while the session rests; now and then, wake it if affordable."""
    remaining = [_HEARTBEAT_UPDATES]
    numbers = session.step_numbers

    def beat(optimizer: Any, args: tuple, kwargs: dict) -> None:
        numbers[optimizer] = numbers.get(optimizer, 0) + 1
        session.updates += 1
        remaining[0] -= 1
        if not remaining[0]:
            remaining[0] = _HEARTBEAT_UPDATES
            if session.clock.affordable:
                session.wake()

    _handles.append(optimizers.register_optimizer_step_pre_hook(beat))


class StopWatching(BaseException):
    """Raised to end a program after the requested number of steps."""


def remove_step_hooks() -> None:
    """Remove the optimizer hooks."""
    while _handles:
        _handles.pop().remove()


def _observe_optimizer(session: Session) -> Observer:
    def construct(original: Callable, args: tuple, kwargs: dict) -> Any:
        original(*args, **kwargs)
        spot = find_constructor(args[0])
        if not session.busy:
            session.wake()
            session.optimizers[args[0]] = spot
            session.adopt(args[0])
            session.clock.again()
            session.emit("on_optimizer", args[0], spot)

    return construct


def _schedule_observer(session: Session) -> Observer:
    def stepped(original: Callable, args: tuple, kwargs: dict) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            if not session.busy and not session.constructing:
                session.emit("on_schedule", args[0], find_spot(), (*args[1:], *kwargs.values()))

    return stepped


# ------------------------------------------------------------------- calls reported beforehand


def _report_before(session: Session, event: str, read: Callable[[tuple, dict], tuple]) -> Observer:
    """Emit an event before each call, with what `read` finds in its arguments, and its spot."""

    def report(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not session.busy:
            session.emit(event, *read(args, kwargs), find_spot())
        return original(*args, **kwargs)

    return report


def _read_argument(args: tuple, kwargs: dict, position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def _read_owner(args: tuple, kwargs: dict) -> tuple[Any]:
    return (args[0],)


def _read_seed(args: tuple, kwargs: dict) -> tuple[Any]:
    return (_read_argument(args, kwargs, 0, "seed"),)


def _read_optimizer_state(args: tuple, kwargs: dict) -> tuple[Any, ...]:
    return args[0], _read_argument(args, kwargs, 1, "state_dict")


def _read_loaded_state(args: tuple, kwargs: dict) -> tuple[Any, ...]:
    return (*_read_optimizer_state(args, kwargs), _read_argument(args, kwargs, 2, "strict", True))


def _read_unscaled(args: tuple, kwargs: dict) -> tuple[Any, ...]:
    """The scaler, and the optimizer whose gradients it unscales; None if it scales a loss."""
    value = _read_argument(args, kwargs, 1, "optimizer")
    return args[0], value if isinstance(value, optimizers.Optimizer) else None


# ------------------------------------------------------------------------- loaders, state, clipping


def _observe_state(session: Session) -> Observer:
    """Report `state_dict()` of the outermost module."""

    def report(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        caller = find_user_frame(2)
        if not session.busy and caller is not None and kwargs.get("destination") is None:
            session.emit("on_state", args[0], result, find_spot())
        return result

    return report


def _observe_checkpoint(session: Session) -> Observer:
    """Report what `torch.load` returns."""

    def report(original: Callable, args: tuple, kwargs: dict) -> Any:
        state = original(*args, **kwargs)
        if not session.busy:
            session.emit("on_checkpoint", state, find_spot())
        return state

    return report


def _observe_construction(session: Session, event: str) -> Observer:
    def construct(original: Callable, args: tuple, kwargs: dict) -> Any:
        session.constructing += 1
        try:
            original(*args, **kwargs)
        finally:
            session.constructing -= 1
        if not session.busy:
            session.emit(event, args[0], find_constructor(args[0]))

    return construct


def _note_construction(session: Session) -> Observer:
    """Record where an object is constructed in `Session.built_at`."""

    def construct(original: Callable, args: tuple, kwargs: dict) -> Any:
        original(*args, **kwargs)
        spot = None if session.busy else find_constructor(args[0])
        if spot is not None:
            session.built_at[args[0]] = spot

    return construct


def _clip_observer(session: Session) -> Observer:
    def clip(original: Callable, args: tuple, kwargs: dict) -> Any:
        supplied = args[0] if args else kwargs.get("parameters")
        parameters = [supplied] if isinstance(supplied, Tensor) else list(supplied or ())
        limit = args[1] if len(args) > 1 else kwargs.get("max_norm", kwargs.get("clip_value", 0))
        if not session.busy:
            session.emit("on_clip", parameters, find_spot(), float(limit))
        # An empty generator gets a warning, which an empty list does not.
        reiterable = (p for p in parameters) if isinstance(supplied, GeneratorType) else parameters
        if args:
            return original(reiterable, *args[1:], **kwargs)
        return original(**{**kwargs, "parameters": reiterable})

    return clip


def _observe_iterator(session: Session) -> Observer:
    def begun(original: Callable, args: tuple, kwargs: dict) -> Any:
        original(*args, **kwargs)
        session.wake()
        loader = session.loaders[args[0]] = args[1] if len(args) > 1 else kwargs["loader"]
        if not session.busy:
            session.emit("on_iterator", loader, find_spot())

    return begun


def _observe_batch(session: Session) -> Observer:
    def fetch(original: Callable, args: tuple, kwargs: dict) -> Any:
        batch = original(*args, **kwargs)
        if not session.busy and args[0] in session.loaders:
            session.emit("on_batch", args[0], batch, find_spot())
            if args[0]._num_yielded == 1:
                session.clock.again()
        return batch

    return fetch


def _collate_observer(session: Session) -> Observer:
    """Report the samples passed to a user's collate function, with the batch."""

    def fetch(original: Callable, args: tuple, kwargs: dict) -> Any:
        fetcher = args[0]
        collate = fetcher.collate_fn
        code = getattr(collate, "__code__", None)
        if session.busy or not session.watching or code is None or is_internal(code):
            return original(*args, **kwargs)
        calls: list[list[Any]] = []

        def catch(samples: Any) -> Any:
            if isinstance(samples, list):
                calls.append(list(samples))
            return collate(samples)

        fetcher.collate_fn = catch
        try:
            batch = original(*args, **kwargs)
        finally:
            fetcher.collate_fn = collate
        for samples in calls:
            session.emit("on_collate", collate, samples, batch)
        return batch

    return fetch
