"""Checks of the functions that pipes call, files by pattern, and streams that close themselves."""

from __future__ import annotations

import fnmatch
import functools
import importlib.util
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from io import IOBase
from typing import Any, ClassVar, NoReturn

from .....native.foundation.user_frames import warn

__all__ = [
    "StreamWrapper", "get_file_binaries_from_pathnames", "get_file_pathnames_from_root",
    "match_masks", "validate_input_col", "validate_pathname_binary_tuple",
]


def dill_available() -> bool:
    """Return whether dill, which pickles lambdas, is installed."""
    return importlib.util.find_spec("dill") is not None


def import_dill() -> Any:
    """Return dill, set up so that pickle is as without it, or None if it is not installed."""
    if not dill_available():
        return None
    dill = importlib.import_module("dill")
    dill.extend(use_dill=False)
    return dill


def _name_of(fn: Callable[..., Any]) -> str:
    function = fn.func if isinstance(fn, functools.partial) else fn
    return getattr(function, "__name__", repr(function))


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """Check that a function can be called with the columns given: one index, or a list of them.

    Raises ValueError if it takes fewer or more arguments, or keywords without a default.
    """
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # a builtin without a signature
        return
    columns = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    has_rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    name = _name_of(fn)
    if keywords:
        raise ValueError(
            f"The function {name} takes {len(keywords)} non-default keyword-only parameters, "
            "which is not allowed."
        )
    if len(parameters) < columns and not has_rest:
        raise ValueError(
            f"The function {name} takes {len(parameters)} parameters, but {columns} are required."
        )
    lacks = len(positional) < columns and not has_rest
    if lacks or any(p.default is p.empty for p in positional[columns:]):
        raise ValueError(
            f"The function {name} takes {len(positional)} positional parameters, but {columns} "
            "are required."
        )


def _is_local(fn: Any) -> bool:
    if hasattr(fn, "__code__"):
        return bool(fn.__code__.co_flags & inspect.CO_NESTED)
    return "<locals>" in getattr(fn, "__qualname__", type(fn).__qualname__)


def _check_unpickable_fn(fn: Any) -> None:
    """Warn of functions that pickle refuses, lambdas and local ones. TypeError if not callable."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    function = fn.func if isinstance(fn, functools.partial) else fn
    if dill_available():
        return
    for applies, label in (
        (_is_local(function), "Local"), (getattr(function, "__name__", "") == "<lambda>", "Lambda"),
    ):
        if applies:
            warn(
                f"{label} function is not supported by pickle, please use regular python function "
                "or functools.partial instead."
            )
            return


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Return whether a file's name matches one of the patterns; without any it does.

    >>> torch.utils.data.datapipes.utils.common.match_masks("a.png", ["*.jpg", "*.png"])
    True
    """
    patterns = [masks] if isinstance(masks, str) else masks
    return not masks or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _fail(error: OSError) -> NoReturn:
    warn(f"{error.filename} : {error.strerror}")
    raise error


def get_file_pathnames_from_root(
    root: str, masks: str | list[str], recursive: bool = False, abspath: bool = False,
    non_deterministic: bool = False,
) -> Iterator[str]:
    """Yield the paths of the files in a folder that match, sorted unless `non_deterministic`."""
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield os.path.abspath(root) if abspath else root
        return
    for path, folders, files in os.walk(root, onerror=_fail):
        folder = os.path.abspath(path) if abspath else path
        if not non_deterministic:
            files.sort()
            folders.sort()
        for file in files:
            if match_masks(file, masks):
                yield os.path.join(folder, file)
        if not recursive:
            return


def get_file_binaries_from_pathnames(
    pathnames: Any, mode: str, encoding: str | None = None
) -> Iterator[tuple[str, StreamWrapper]]:
    """Open the files and yield path and stream. TypeError if a path is not a text."""
    if not isinstance(pathnames, Iterable):
        pathnames = [pathnames]
    mode = "r" + mode if mode in ("b", "t") else mode
    for path in pathnames:
        if not isinstance(path, str):
            raise TypeError(f"Expected string type for pathname, but got {type(path)}")
        yield path, StreamWrapper(open(path, mode, encoding=encoding))  # noqa: SIM115


def validate_pathname_binary_tuple(data: Any) -> None:
    """Raise TypeError unless the data are a path and a stream."""
    if not isinstance(data, tuple):
        raise TypeError(
            f"pathname binary data should be tuple type, but it is type {type(data)}"
        )
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    if not isinstance(data[0], str):
        raise TypeError(
            "pathname within the tuple should have string type pathname, but it is type "
            f"{type(data[0])}"
        )
    if not isinstance(data[1], (IOBase, StreamWrapper)):
        raise TypeError(
            "binary stream within the tuple should have IOBase or"
            f"its subclasses as type, but it is type {type(data[1])}"
        )


def warn_of_deprecated(class_name: str, method: str, since: str, removed: str) -> None:
    """Warn that a class of pipes and its method are deprecated."""
    warn(
        f"`{class_name}()` and its functional API `.{method}()` are deprecated since {since} and "
        f"will be removed in {removed}.\n"
        "See https://github.com/pytorch/data/issues/163 for details.",
        FutureWarning,
    )


class StreamWrapper:
    """A stream that closes when nothing uses it any more; other attributes are the stream's.

    >>> import io
    >>> StreamWrapper = torch.utils.data.datapipes.utils.common.StreamWrapper
    >>> stream = StreamWrapper(io.StringIO("text"))
    >>> stream.read()
    'text'
    """

    session_streams: ClassVar[dict[Any, int]] = {}
    debug_unclosed_streams = False

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj = file_obj
        self.child_counter = 0
        self.parent_stream = parent_stream
        self.close_on_last_child = False
        self.name = name
        self.closed = False
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise RuntimeError(
                    f"Parent stream should be StreamWrapper, {type(parent_stream)} was given"
                )
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close all streams in nested dicts, lists and tuples, ten levels deep."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, (dict, list, tuple)):
            for value in v.values() if isinstance(v, dict) else v:
                cls.close_streams(value, depth + 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the stream, and the parent if this was its last child and it waits for that."""
        if self.closed:
            return
        if StreamWrapper.debug_unclosed_streams:
            del StreamWrapper.session_streams[self]
        parent = self.__dict__.get("parent_stream")
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        close = getattr(self.file_obj, "close", None)
        if close is not None:
            close(*args, **kwargs)
        self.closed = True

    def autoclose(self) -> None:
        """Close the stream as soon as its last child is closed, now if there is none."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self) -> list[str]:
        return list({*self.__dict__, *StreamWrapper.__dict__, *dir(self.file_obj)})

    def __del__(self) -> None:
        if "file_obj" in self.__dict__ and not self.closed:
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{name}{self.file_obj!r}>"

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, obj: Any) -> None:
        self.__init__(obj)  # type: ignore[misc]  # a new wrapper of the stream
