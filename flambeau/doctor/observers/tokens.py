"""Observer of tokens: the rows that an embedding looks up."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...tensor.tensor import Tensor
from ..events import Tokens
from ..places import find_spot
from . import Observer
from .calls import Call, Report, report_after

if TYPE_CHECKING:
    from ..session import Session


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the embedding function, with its observer."""
    embedding = importlib.import_module("flambeau.nn.functional").embedding
    yield embedding, report_after(session, _create_report(embedding))


def _create_report(embedding: Callable) -> Report:
    parameters = list(inspect.signature(embedding).parameters)

    def report_rows(session: Session, call: Call) -> None:
        if not isinstance(call.result, Tensor):
            return
        arguments = {**dict(zip(parameters, call.args, strict=False)), **call.kwargs}
        padding = arguments.get("padding_idx")
        if padding is not None and padding < 0:
            padding += len(arguments["weight"])
        session.emit("on_embedding", Tokens(arguments["input"]._array, call.result, padding,
                                            find_spot()))

    return report_rows
