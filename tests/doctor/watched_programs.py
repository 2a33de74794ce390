"""The programs in broken/ and healthy/: functions, each watched by itself."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from flambeau import doctor

HERE = Path(__file__).parent
MARK = "# WRONG"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"watched_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def programs(folder: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """The public functions of the files in a folder."""
    for path in sorted((HERE / folder).glob("*.py")):
        for name, function in list(vars(load(path)).items()):
            own = inspect.isfunction(function) and function.__code__.co_filename == str(path)
            if own and not name.startswith("_"):
                yield f"{path.stem}.{name}", function


def watch(program: Callable[[], None]) -> doctor.Doctor:
    watcher = doctor.Doctor(quiet=True)
    watcher.session.clock.spent_s = float("-inf")  # a busy machine must not end the watching
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with watcher:
            program()
    assert not watcher.session.faults
    return watcher


def mistakes(watcher: doctor.Doctor, program: Callable[[], None]) -> list[doctor.Finding]:
    """What was found in the program's own lines; statements of its neighbours are not its."""
    source, first = inspect.getsourcelines(program)
    inside = range(first, first + len(source))
    return [f for f in watcher.mistakes if f.place is None or f.place.line in inside]


def marked(program: Callable[[], None]) -> set[int]:
    source, first = inspect.getsourcelines(program)
    return {first + i for i, line in enumerate(source) if line.rstrip().endswith(MARK)
            or f"{MARK}  #" in line}
