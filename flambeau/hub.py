"""torch.hub: models from a folder with a hubconf.py, and checkpoints from the web.

Repositories on GitHub are not fetched: clone them and give their folder, with source="local".
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from .serialization import load as _load_file
from .tensor.absent import make_absent_getattr as _answering

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_CHUNK = 1 << 17
_folder: list[str] = []  # set by set_dir


def get_dir() -> str:
    """Return the download folder: `set_dir`'s, $TORCH_HOME/hub or ~/.cache/torch/hub."""
    if _folder:
        return _folder[-1]
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the download folder."""
    _folder[:] = [os.path.expanduser(d)]


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download to a file atomically: an interrupted download leaves no partial file.

    Raises RuntimeError if the file's SHA-256 does not start with `hash_prefix`.
    """
    dst = os.path.expanduser(dst)
    sha256 = hashlib.sha256()
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(dst) or ".", suffix=".partial")
    try:
        request = Request(url, headers={"User-Agent": "torch.hub"})
        with os.fdopen(handle, "wb") as file, urlopen(request) as answer:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                sha256.update(chunk)
        result = sha256.hexdigest()
        if hash_prefix is not None and result[: len(hash_prefix)] != hash_prefix:
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{result}")')
        os.replace(partial, dst)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = False,
) -> dict[str, Any]:
    """Load the checkpoint at a URL, downloaded once and cached in `model_dir`.

    With `check_hash` the file's name contains the start of its SHA-256: name-0123abcd.pth.
    """
    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = folder / name
    if not path.exists():
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        result = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, str(path), result.group(1) if result else None, progress)
    return _load_file(path, map_location=map_location, weights_only=weights_only)


def _entries(repo_or_dir: str, source: str) -> Any:
    """Import a folder's hubconf.py and check its dependencies."""
    if source != "local":
        if source != "github":
            raise ValueError(
                f'Unknown source: "{source}". Allowed values: "github" | "local".'
            )
        raise NotImplementedError(
            "torch.hub with source='github' is not implemented in flambeau: clone "
            f"{repo_or_dir} and give its folder, with source='local'"
        )
    folder = os.path.expanduser(repo_or_dir)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [name for name in getattr(module, "dependencies", ())
               if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: Any, name: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a str of function name")
    result = getattr(module, name, None)
    if not callable(result):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return result


def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = None,
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Return `model(*args, **kwargs)`, a function of a folder's hubconf.py (source="local").

    Raises NotImplementedError for source="github", RuntimeError for a missing name.
    """
    return _entry(_entries(repo_or_dir, source), model)(*args, **kwargs)


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False,
    trust_repo: Any = None, verbose: bool = True, source: str = "local",
) -> Any:
    """Return the names of the functions in a folder's hubconf.py."""
    module = _entries(github, source)
    return [name for name in dir(module)
            if callable(getattr(module, name)) and not name.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False,
    trust_repo: Any = None, source: str = "local",
) -> str | None:
    """Return the docstring of a function in a folder's hubconf.py."""
    return _entry(_entries(github, source), model).__doc__


class _Faketqdm:
    """A progress bar if tqdm is not installed: prints the fraction done to stderr.

    A context manager, as tqdm is: `with tqdm(total=3) as bar: bar.update(1)`.
    """

    def __init__(self, total: int | None = None, disable: bool = False, unit: Any = None,
                 *args: Any, **kwargs: Any) -> None:
        self.total, self.disable, self.n = total, disable, 0

    def update(self, n: int) -> None:
        """Advance by `n`."""
        self.n += n
        if not self.disable:
            share = f"{self.n} bytes" if self.total is None else f"{100 * self.n / self.total:.1f}%"
            sys.stderr.write(f"\r{share}")
            sys.stderr.flush()

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; for compatibility with tqdm."""

    def write(self, s: str) -> None:
        """Write a line to stderr."""
        sys.stderr.write(f"{s}\n")

    def close(self) -> None:
        """End the line."""
        if not self.disable:
            sys.stderr.write("\n")
        self.disable = True

    def __enter__(self) -> _Faketqdm:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def __getattr__(name: str) -> Any:
    if name == "tqdm":  # late: few programs download
        try:
            from tqdm import tqdm
        except ImportError:
            return _Faketqdm
        return tqdm
    return _lacking(name)


_lacking = _answering(__name__)
