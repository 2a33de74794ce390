"""Observers of events that happen once per step or less: module calls, optimizers, loaders.

Each replaces a library function, calls the original and sends an event to the session.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from ...nn.module import Module
from ...optim import optimizer as optimizers
from ...tensor.tensor import Tensor
from ..places import find_constructor, find_spot
from . import Observer
from .calls import Call, report_after, report_before
from .loaders import LoaderObserver
from .modules import ModuleObserver
from .passes import PassObserver

if TYPE_CHECKING:
    from ..session import Session


def step_targets(session: Session) -> list[tuple[Any, Observer]]:
    """Return the functions that each step calls, with their observers."""
    modules, loaders = ModuleObserver(session), LoaderObserver(session)
    clipping = importlib.import_module("flambeau.nn.utils.clip_grad")
    scaler = importlib.import_module("flambeau.amp.grad_scaler").GradScaler
    iterators = importlib.import_module("flambeau.utils.data.iterator")
    fetchers = importlib.import_module("flambeau.utils.data._utils.fetch")
    compiled = importlib.import_module("flambeau.compiler.driver.compiled_function").Compiled
    return [
        (Module.__call__, modules.call),
        (Module._call_impl, modules.call),
        (Module.zero_grad, report_before(session, _report_zero_grad)),
        *PassObserver(session).targets(),
        (optimizers.Optimizer.zero_grad, report_before(session, _report_zero_grad)),
        (clipping.clip_grad_norm_, partial(_clip, session)),
        (clipping.clip_grad_value_, partial(_clip, session)),
        (scaler.scale, report_before(session, _report_unscaling)),
        (scaler.unscale_, report_before(session, _report_unscaling)),
        (iterators._BaseDataLoaderIter.__next__, loaders.advance),
        (fetchers._MapDatasetFetcher.fetch, loaders.fetch),
        (compiled._flambeau_serve, partial(_run_as_written, session)),
        (compiled.attempt, _return_miss),
    ]


def list_rare_targets(session: Session) -> list[tuple[Any, Observer]]:
    """Return the functions to patch for the whole session, with their observers."""
    modules, loaders = ModuleObserver(session), LoaderObserver(session)
    namespace = importlib.import_module("flambeau")
    schedulers = importlib.import_module("flambeau.optim.lr_scheduler.scheduler")
    data = importlib.import_module("flambeau.utils.data")
    iterators = importlib.import_module("flambeau.utils.data.iterator")
    public_schedulers = vars(importlib.import_module("flambeau.optim.lr_scheduler"))
    return [
        (Module.__init__, modules.construct),
        (Module.train, modules.mode),
        (Module.state_dict, report_after(session, _report_state)),
        (Module.load_state_dict, report_before(session, _report_load)),
        (optimizers.Optimizer.__init__, report_after(session, _report_optimizer)),
        (optimizers.Optimizer.load_state_dict, report_before(session, _report_optimizer_load)),
        (namespace.load, report_after(session, _report_checkpoint)),
        *[(cls.__init__, partial(_construct, session, "on_scheduler"))
          for cls in (schedulers.LRScheduler, public_schedulers["ReduceLROnPlateau"])],
        *[(step, partial(_schedule, session))
          for step in _collect_steps(public_schedulers.values(), schedulers.LRScheduler)],
        (iterators._BaseDataLoaderIter.__init__, loaders.begin),
        (data.DataLoader.__init__, partial(_construct, session, "on_loader")),
        (data.WeightedRandomSampler.__init__, report_after(session, _note_construction)),
        (namespace.manual_seed, report_before(session, _report_seed)),
    ]


def _collect_steps(candidates: Any, base: type) -> set[Callable]:
    """Return the `step` methods that subclasses of a class define."""
    return {vars(cls)["step"] for cls in candidates
            if isinstance(cls, type) and issubclass(cls, base) and "step" in vars(cls)}


# ------------------------------------------------------------------------- compiled steps


def _run_as_written(session: Session, original: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a compiled function as written: its compiled program would hide the step."""
    from ...native.runtime.frameless_call import DIRECT

    session.compiled = True
    return DIRECT


def _return_miss(original: Callable, args: tuple, kwargs: dict) -> Any:
    from ...native.runtime.frameless_call import MISS

    return MISS


# ------------------------------------------------------------------------- reports of calls


def _report_zero_grad(session: Session, call: Call) -> None:
    session.emit("on_zero_grad", call.args[0], find_spot())


def _report_unscaling(session: Session, call: Call) -> None:
    """Report the scaler, and the optimizer whose gradients it unscales; None if it scales a loss.
    """
    value = call.get(1, "optimizer")
    optimizer = value if isinstance(value, optimizers.Optimizer) else None
    session.emit("on_unscale", call.args[0], optimizer, find_spot())


def _report_seed(session: Session, call: Call) -> None:
    session.emit("on_seed", call.get(0, "seed"), find_spot())


def _report_state(session: Session, call: Call) -> None:
    """Report `state_dict()` of the outermost module."""
    spot = find_spot()
    if spot is not None and call.kwargs.get("destination") is None:
        session.emit("on_state", call.args[0], call.result, spot)


def _report_load(session: Session, call: Call) -> None:
    state, strict = call.get(1, "state_dict"), call.get(2, "strict", True)
    session.emit("on_load", call.args[0], state, strict, find_spot())


def _report_optimizer_load(session: Session, call: Call) -> None:
    session.emit("on_optimizer_load", call.args[0], call.get(1, "state_dict"), find_spot())


def _report_checkpoint(session: Session, call: Call) -> None:
    session.emit("on_checkpoint", call.result, find_spot())


def _report_optimizer(session: Session, call: Call) -> None:
    optimizer = call.args[0]
    spot = find_constructor(optimizer)
    session.wake()
    session.optimizers[optimizer] = spot
    session.adopt(optimizer)
    session.clock.again()
    session.emit("on_optimizer", optimizer, spot)


def _note_construction(session: Session, call: Call) -> None:
    """Record where an object is constructed in `Session.built_at`."""
    spot = find_constructor(call.args[0])
    if spot is not None:
        session.built_at[call.args[0]] = spot


# ------------------------------------------------------------------------- other observers


def _construct(session: Session, event: str, original: Callable, args: tuple, kwargs: dict) -> None:
    """Report a new scheduler or loader. A scheduler's constructor takes a step of its own, which
    `_schedule` leaves out."""
    session.constructing += 1
    try:
        original(*args, **kwargs)
    finally:
        session.constructing -= 1
    if not session.busy:
        session.emit(event, args[0], find_constructor(args[0]))


def _schedule(session: Session, original: Callable, args: tuple, kwargs: dict) -> Any:
    """Report a scheduler's step, also one that raises."""
    try:
        return original(*args, **kwargs)
    finally:
        if not session.busy and not session.constructing:
            session.emit("on_schedule", args[0], find_spot(), (*args[1:], *kwargs.values()))


def _clip(session: Session, original: Callable, args: tuple, kwargs: dict) -> Any:
    """Report the clipped parameters and the limit; a generator of parameters is read once."""
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
