"""torch.profiler._pattern_matcher: finds slow coding patterns in a profile's event tree.

A pattern is a class with `match(event)`. Patterns about GPUs never match here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..autograd.traces.event_fields import _ExtraFields_TorchOp
from ..tensor.dtypes import bfloat16, float16
from ._utils import traverse_bfs, traverse_dfs

_TUNING_GUIDE = "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html"


class Pattern:
    """A slow coding pattern; subclasses set `name`, `description`, `url` and define `match`."""

    name = "Please specify a name for pattern"
    description = "Please specify a description for pattern"
    url = ""
    needs_stack = needs_shapes = False

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        if prof.profiler is None or prof.profiler.kineto_results is None:
            raise AssertionError("profiler and kineto_results must not be None")
        self.prof, self.should_benchmark = prof, should_benchmark
        self.event_tree = prof.profiler.kineto_results.experimental_event_tree()
        self.tid_root: dict[int, list[Any]] = {}
        for event in self.event_tree:
            self.tid_root.setdefault(event.start_tid, []).append(event)

    @property
    def skip(self) -> bool:
        """Whether the profile lacks data that the pattern needs."""
        return (self.needs_stack and not self.prof.with_stack) or \
            (self.needs_shapes and not self.prof.record_shapes)

    def match(self, event: Any) -> bool:
        """Return whether an event shows the pattern; NotImplementedError in this class."""
        raise NotImplementedError

    def report(self, event: Any) -> str:
        """Return the message for a matching event."""
        return f"{self.description}\n[Source Code Location] {source_code_location(event)}"

    def eventTreeTraversal(self) -> Iterator[Any]:
        """Yield the events to examine, depth first."""
        yield from traverse_dfs(self.event_tree)

    def summary(self, events: list[Any]) -> str:
        """Return the number of matches, or the benchmark summary if there is a benchmark."""
        if self.should_benchmark and hasattr(self, "benchmark"):
            return self.benchmark_summary(events)
        return f"{self.name}: {len(events)} events matched."

    def benchmark_summary(self, events: list[Any]) -> str:
        """Return the estimated speedup, from the factors of a subclass's `benchmark`."""
        if not hasattr(self, "benchmark"):
            raise AssertionError("Please implement benchmark()")
        factors = self.benchmark(events)
        spent_ns = sum(event.duration_time_ns for event in events)
        new_ns = sum(factors[input_shapes(e)] * e.duration_time_ns for e in events)
        return (f"{self.name}: {len(events)} events matched. Total Estimated Speedup: "
                f"{_format_time(spent_ns - new_ns)} ({round(spent_ns / new_ns, 2)}X)")

    def matched_events(self) -> list[Any]:
        """Return the matching events."""
        return [] if self.skip else [e for e in self.eventTreeTraversal() if self.match(e)]

    def root_of(self, event: Any) -> Any:
        """Return the outermost event that encloses an event."""
        while event.parent:
            event = event.parent
        return event

    def siblings_of(self, event: Any) -> tuple[list[Any], list[Any]]:
        """Return an event's siblings before and after it."""
        siblings = event.parent.children if event.parent else self.tid_root[event.start_tid]
        position = siblings.index(event)
        return siblings[:position], siblings[position + 1 :]

    def next_of(self, event: Any) -> Any:
        """Return the next sibling of an event, or None."""
        later = self.siblings_of(event)[1]
        return later[0] if later else None

    def prev_of(self, event: Any) -> Any:
        """Return the previous sibling of an event, or None."""
        earlier = self.siblings_of(event)[0]
        return earlier[-1] if earlier else None

    def go_up_until(self, event: Any, predicate: Callable[[Any], bool]) -> Any:
        """Return the innermost of an event and its parents that satisfies a predicate, else the
        outermost."""
        while event and event.parent and not predicate(event):
            event = event.parent
        return event


def _format_time(time_ns: float) -> str:
    for unit in ("ns", "us", "ms"):
        if time_ns < 1000:
            return f"{time_ns:.2f} {unit}"
        time_ns /= 1000
    return f"{time_ns:.2f} s"


class NamePattern(Pattern):
    """Matches events whose name contains a regular expression."""

    def __init__(self, prof: Any, name: str, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name, self.description = name, f"Matched Name Event: {name}"

    def match(self, event: Any) -> bool:
        """Return whether the expression matches anywhere in the name."""
        return re.search(self.name, event.name) is not None


class _OfOtherDevice(Pattern):
    """A pattern of a device that flambeau does not support."""

    @property
    def skip(self) -> bool:
        """True, because no event runs on a GPU."""
        return True


class ExtraCUDACopyPattern(_OfOtherDevice):
    """A tensor filled on the CPU and moved to a GPU; never matches here."""

    name = "Extra CUDA Copy Pattern"
    description = ("Filled a CPU tensor and immediately moved it to GPU. Please initialize it on "
                   "GPU.")


class FP32MatMulPattern(_OfOtherDevice):
    """Matrix products without TF32 on a GPU that supports it; never matches here."""

    name = "FP32 MatMul Pattern"
    description = ("You are currently using GPU that supports TF32. Please enable TF32 by setting "
                   "'torch.backends.cuda.matmul.allow_tf32 = True'")


class ForLoopIndexingPattern(Pattern):
    """A loop over the rows of a tensor: `select` and the same operators, ten times or more."""

    name = "For Loop Indexing Pattern"
    description = "For loop indexing detected. Vectorization recommended."
    MIN_ROUNDS = 10

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.visited: set[int] = set()

    def eventTreeTraversal(self) -> Iterator[Any]:
        """Yield the events breadth first, so that a loop is found at its first iteration."""
        yield from traverse_bfs(self.event_tree)

    def match(self, event: Any) -> bool:
        """Return whether an event starts a loop."""
        if event.name != "aten::select" or event.id in self.visited:
            return False
        line = [event, *self.siblings_of(event)[1]]
        names = [e.name for e in line]
        length = names.index("aten::select", 1) if "aten::select" in names[1:] else 0
        if not length:
            return False
        rounds = 1
        while names[rounds * length : (rounds + 1) * length] == names[:length]:
            self.visited.add(line[rounds * length].id)
            rounds += 1
        return rounds >= self.MIN_ROUNDS


class OptimizerSingleTensorPattern(Pattern):
    """An optimizer step without `foreach=True` or `fused=True`.

    Here it makes no difference; it does if the program also runs on PyTorch.
    """

    name = "Optimizer Single Tensor Pattern"
    description = ("Detected optimizer running with single tensor implementation. Please enable "
                   "multi tensor implementation by passing 'foreach=True' into optimizer.")

    def match(self, event: Any) -> bool:
        """Return whether an event is such a step."""
        return event.name.startswith("Optimizer.step#") \
            and "single_tensor" in event.extra_fields.arguments


class SynchronizedDataLoaderPattern(Pattern):
    """A DataLoader without workers: the program waits for each batch."""

    name = "Synchronized DataLoader Pattern"
    description = ("Detected DataLoader running with synchronized implementation. Please enable "
                   "asynchronous dataloading by setting num_workers > 0 when initializing "
                   "DataLoader.")
    url = f"{_TUNING_GUIDE}#enable-async-data-loading-and-augmentation"
    _BATCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

    def match(self, event: Any) -> bool:
        """Return whether an event is the first such wait among its siblings."""
        return event.name == self._BATCH \
            and all(e.name != self._BATCH for e in self.siblings_of(event)[0])


class GradNotSetToNonePattern(Pattern):
    """Gradients that `zero_grad` fills with zeros instead of setting them to None."""

    name = "Gradient Set To Zero Instead of None Pattern"
    description = ("Detected gradient set to zero instead of None. Please add 'set_to_none=True' "
                   "when calling zero_grad().")
    url = f"{_TUNING_GUIDE}#disable-gradient-calculation-for-validation-or-inference"

    def match(self, event: Any) -> bool:
        """Return whether an event is such a call."""
        return event.name.endswith("zero_grad") \
            and any(e.name == "aten::zero_" for e in traverse_dfs(event.children))


class Conv2dBiasFollowedByBatchNorm2dPattern(Pattern):
    """A convolution with a bias before a batch normalization, which cancels the bias."""

    name = "Enabling Bias in Conv2d Followed By BatchNorm Pattern"
    description = ("Detected bias enabled in Conv2d that is followed by BatchNorm2d. Please set "
                   "'bias=False' in Conv2d.")
    url = f"{_TUNING_GUIDE}#disable-bias-for-convolutions-directly-followed-by-a-batch-norm"
    needs_shapes = True

    def match(self, event: Any) -> bool:
        """Return whether an event is such a convolution."""
        shapes = input_shapes(event) if event.name == "aten::conv2d" else ()
        if len(shapes) < 3 or not shapes[2]:
            return False
        module = self.go_up_until(event, lambda e: e.name.startswith("nn.Module: Conv2d"))
        following = self.next_of(module)
        return following is not None and following.name.startswith("nn.Module: BatchNorm2d")


class MatMulDimInFP16Pattern(Pattern):
    """16-bit matrix products whose sizes are not multiples of 8."""

    name = "Matrix Multiplication Dimension Not Aligned Pattern"
    description = ("Detected matmul with dimension not aligned. Please use matmul with aligned "
                   "dimension.")
    url = f"{_TUNING_GUIDE}#use-mixed-precision-and-amp"
    needs_stack = needs_shapes = True

    def match(self, event: Any) -> bool:
        """Return whether an event is such a product."""
        if event.name not in ("aten::mm", "aten::bmm", "aten::addmm"):
            return False
        dtypes = input_dtypes(event)
        return bool(dtypes) and dtypes[0] in (float16, bfloat16) \
            and any(n % 8 for shape in input_shapes(event) for n in shape[-2:])


def source_code_location(event: Any) -> str:
    """Return the calling `file:line` of the innermost enclosing event that has a stack."""
    while event is not None:
        if event.stack:
            code, line = event.stack[0]
            return f"{code.co_filename}:{line}"
        event = event.parent
    return "No source code location found"


def _operator(event: Any) -> _ExtraFields_TorchOp:
    if not isinstance(event.extra_fields, _ExtraFields_TorchOp):
        raise AssertionError(
            f"expected _ExtraFields_TorchOp, got {type(event.extra_fields).__name__}")
    return event.extra_fields


def input_shapes(event: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the shapes of an operator's arguments."""
    return tuple(tuple(shape) for shape in _operator(event).shapes)


def input_dtypes(event: Any) -> tuple[Any, ...]:
    """Return the dtypes of an operator's arguments, None for non-tensors."""
    return tuple(_operator(event).dtypes)


_REPORTED: tuple[type[Pattern], ...] = (
    ExtraCUDACopyPattern, FP32MatMulPattern, OptimizerSingleTensorPattern,
    SynchronizedDataLoaderPattern, GradNotSetToNonePattern,
    Conv2dBiasFollowedByBatchNorm2dPattern, MatMulDimInFP16Pattern,
)


def _matches(patterns: Iterable[Pattern]) -> Iterator[tuple[Pattern, list[Any]]]:
    for pattern in patterns:
        if events := pattern.matched_events():
            yield pattern, events


def report_all_anti_patterns(
    prof: Any, should_benchmark: bool = False, print_enable: bool = True,
    json_report_dir: str | None = None,
) -> None:
    """Print the patterns found in a profile; write `torchtidy_report.json` to `json_report_dir`.

    >>> with torch.profiler.profile(with_stack=True, record_shapes=True) as prof:
    ...     y = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.BatchNorm2d(1))(
    ...         torch.ones(1, 1, 2, 2))
    >>> torch.profiler._pattern_matcher.report_all_anti_patterns(prof)  # doctest: +ELLIPSIS
    ----------------------------------------TorchTidy Report---...
    """
    rule = f"{'-' * 40}TorchTidy Report{'-' * 40}"
    messages, summaries = [rule, "Matched Events:"], []
    by_file: dict[str, list[dict[str, Any]]] = {}
    for pattern, events in _matches(pattern_class(prof, should_benchmark)
                                    for pattern_class in _REPORTED):
        summaries.append(pattern.summary(events))
        for event in events:
            message = pattern.report(event)
            if message in messages:
                continue
            messages.append(message)
            file, _, line = source_code_location(event).rpartition(":")
            if file:
                by_file.setdefault(file, []).append({
                    "line_number": int(line), "name": pattern.name, "url": pattern.url,
                    "message": pattern.description})
    if json_report_dir is not None:
        _write_report(os.path.join(json_report_dir, "torchtidy_report.json"), by_file)
    if print_enable:
        print("\n".join([*messages, "Summary:", *summaries, rule]))


def _write_report(path: str, by_file: dict[str, list[dict[str, Any]]]) -> None:
    """Merge entries into a report; a source file's new entries replace its old ones."""
    if os.path.exists(path):
        with open(path) as file:
            by_file = json.load(file) | by_file
    with open(path, "w") as file:
        json.dump(by_file, file, indent=4)
