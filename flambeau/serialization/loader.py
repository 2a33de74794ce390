"""`load`: read the object saved in a file. Also lists the globals that a file needs."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, Any, Literal

import numpy as np

from ..native.foundation.user_frames import warn
from ..tensor.devices import device
from ..tensor.dtypes import dtype, uint8
from ..tensor.storage import TypedStorage, UntypedStorage, anchor
from . import legacy, names, safe_globals, unpickler
from .archive import ArchiveReader, is_archive
from .byte_order import swap_bytes
from .location import MapLocation, MetaStorage, goes_to_meta, restorer
from .options import MAP_SHARED, LoadEndianness, Settings
from .rebuild import LoadState, StorageType, check_sparse_tensors

FileLike = str | os.PathLike[str] | IO[bytes]

UNSAFE_MESSAGE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will "
    "likely succeed, but it can result in arbitrary code execution. Do it only if you got the "
    "file from a trusted source."
)


class StorageSource:
    """The storages of one archive. Each is read once, when first referenced."""

    def __init__(
        self, archive: ArchiveReader, map_location: MapLocation, mapped: np.ndarray | None,
        folder: str = "data",
    ) -> None:
        self._archive, self._mapped, self._folder = archive, mapped, folder
        self._restore = restorer(map_location)
        self._meta = goes_to_meta(map_location)
        self._swap = _read_byte_order(archive) != sys.byteorder
        self._loaded: dict[str, TypedStorage] = {}

    def __call__(self, reference: tuple[Any, ...]) -> TypedStorage:
        """Return the storage of a reference ('storage', class, key, location, count)."""
        element_type, key, location, nbytes = _read_reference(reference[1:])
        if key not in self._loaded:
            self._loaded[key] = TypedStorage(
                wrap_storage=self._load(element_type, key, location, nbytes), dtype=element_type
            )
        result = self._loaded[key]
        if result.dtype == element_type:
            return result
        return TypedStorage(wrap_storage=result._untyped_storage, dtype=element_type)

    def _load(self, element_type: dtype, key: str, location: str, nbytes: int) -> Any:
        if self._meta:
            return MetaStorage(nbytes)
        record = f"{self._folder}/{key}"
        if self._mapped is not None:
            start = self._archive.offset(record)
            if nbytes > self._archive.size(record):
                raise RuntimeError(f"record {record} has fewer than {nbytes} bytes")
            memory = anchor(self._mapped[start : start + nbytes])
        else:
            if nbytes > self._archive.size(record):  # before allocating the memory
                raise RuntimeError(f"record {record} has fewer than {nbytes} bytes")
            memory = np.empty(nbytes, np.uint8)
            self._archive.read_into(record, memory)
        if self._swap and element_type.itemsize > 1:
            swap_bytes(memory, element_type)
        return self._restore(UntypedStorage(memory), location)


def _read_reference(reference: tuple[Any, ...]) -> tuple[dtype, str, str, int]:
    if len(reference) != 4:
        raise pickle.UnpicklingError("a reference to a storage is malformed")
    storage_type, key, location, count = reference
    if isinstance(location, bytes):
        location = location.decode("ascii")
    if type(key) is not str or type(location) is not str or type(count) is not int or count < 0:
        raise pickle.UnpicklingError("a reference to a storage is malformed")
    if isinstance(storage_type, StorageType):
        element_type = storage_type.dtype
    elif storage_type is UntypedStorage:
        element_type = uint8
    else:
        raise pickle.UnpicklingError(f"{storage_type!r} is not a storage class")
    return element_type, key, location, count * element_type.itemsize


def _read_byte_order(archive: ArchiveReader) -> str:
    if archive.has("byteorder"):
        order = archive.read("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError("Unknown endianness type: " + order.decode(errors="replace"))
        return order.decode()
    if Settings.endianness == LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if Settings.endianness == LoadEndianness.BIG else "little"


class TrustingUnpickler(pickle.Unpickler):
    """pickle's unpickler with PyTorch's names mapped to flambeau's. Runs any code in the file."""

    def __init__(
        self, file: IO[bytes], persistent_load: Callable[[Any], Any], **options: Any
    ) -> None:
        super().__init__(file, **options)
        self._refer = persistent_load

    def persistent_load(self, reference: Any) -> Any:
        """Return the object of a persistent reference."""
        if not isinstance(reference, tuple) or not reference:
            raise pickle.UnpicklingError(f"saved_id must be a tuple, got {type(reference)}")
        return self._refer(reference)

    def find_class(self, module: str, name: str) -> Any:
        """Return an object by name; PyTorch's names resolve to flambeau's."""
        if module == "torch" or module.startswith("torch."):
            return names.resolve(module, name)
        return super().find_class(module, name)


def unpickle(
    file: IO[bytes], refer: Callable[[Any], Any], pickle_module: Any, options: dict[str, Any]
) -> Any:
    """Load one object from a pickle, with the restricted unpickler if `pickle_module` is None."""
    if pickle_module is None:
        encoding = options.get("encoding", "utf-8")
        return unpickler.WeightsUnpickler(file, refer, encoding).load()
    if pickle_module is pickle:
        return TrustingUnpickler(file, refer, **options).load()
    base = pickle_module.Unpickler
    foreign = type("ForeignUnpickler", (base,), {"find_class": _find_or(base)})(file, **options)
    foreign.persistent_load = refer
    return foreign.load()


def _find_or(base: type[Any]) -> Callable[[Any, str, str], Any]:
    def find_class(self: Any, module: str, name: str) -> Any:
        if module == "torch" or module.startswith("torch."):
            return names.resolve(module, name)
        return base.find_class(self, module, name)

    return find_class


def _explain(message: str) -> str:
    if "was not an allowed global by default" in message:
        return (
            "Weights only load failed. This file can still be loaded, to do so you have two "
            "options, \x1b[1mdo those steps only if you trust the source of the checkpoint\x1b[0m. "
            "\n"
            f"\t(1) {UNSAFE_MESSAGE}\n"
            "\t(2) Alternatively, to load with `weights_only=True` please check the recommended "
            f"steps in the following error message.\n\tWeightsUnpickler error: {message}\n\n"
            "Check the documentation of torch.load to learn more about types accepted by default "
            "with weights_only https://pytorch.org/docs/stable/generated/torch.load.html."
        )
    return f"Weights only load failed. {UNSAFE_MESSAGE}\n\n{message}"


def _decide_weights_only(weights_only: bool | None, pickle_module: Any) -> bool:
    """Decide from the argument, the environment, and the default: True without a pickle module."""
    true = ("1", "y", "yes", "true")
    force = os.getenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in true
    force_no = os.getenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in true
    if force and force_no:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    if force:
        return True
    if weights_only is None and force_no:
        warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the "
            "`weights_only` argument was not explicitly passed to `torch.load`, forcing "
            "weights_only=False.",
        )
        return False
    return pickle_module is None if weights_only is None else bool(weights_only)


@contextmanager
def _enter_loading(map_location: MapLocation) -> Iterator[None]:
    previous, LoadState.map_location = LoadState.map_location, map_location
    unchecked, LoadState.unchecked = LoadState.unchecked, []
    try:
        yield
        check_sparse_tensors()
    finally:
        LoadState.map_location, LoadState.unchecked = previous, unchecked


def load(
    f: FileLike,
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load a file saved by flambeau or PyTorch: a path, or a seekable file object.

    `weights_only=True` (the default) builds only tensors, plain data and types added with
    `add_safe_globals`, and runs no other code. `weights_only=False` runs any code in the file: use
    it only for files that you trust. `map_location` chooses the devices of storages. `mmap=True`
    maps the file and reads storages on use.

    Raises pickle.UnpicklingError for what weights_only does not allow, RuntimeError for a damaged
    file, FileNotFoundError for a missing one.

    >>> torch.save({"weight": torch.ones(2)}, "weights.pt")
    >>> torch.load("weights.pt")
    {'weight': tensor([1., 1.])}
    """
    weights_only = _decide_weights_only(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only and pickle_load_args:
        warn("pickle_load_args only works if `weights_only=False`.")
    pickle_load_args.setdefault("encoding", "utf-8")
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if path is not None and path.endswith(".safetensors"):
        return _load_safetensors(path, map_location)
    module = None if weights_only else pickle_module or pickle
    with _open_file(f) as file, _enter_loading(map_location):
        _require_seekable(file)
        try:
            return _load(file, path, map_location, module, mmap, pickle_load_args)
        except pickle.UnpicklingError as error:
            if not weights_only:
                raise
            raise pickle.UnpicklingError(_explain(str(error))) from None


def _open_file(f: FileLike) -> AbstractContextManager[IO[bytes]]:
    """Open a path in a context that closes it, or wrap the caller's file, which stays open."""
    return open(f, "rb") if isinstance(f, (str, os.PathLike)) else nullcontext(f)


def _load(
    file: IO[bytes], path: str | None, map_location: MapLocation, module: Any, mmap: bool | None,
    options: dict[str, Any],
) -> Any:
    if is_archive(file):
        mapped = _map(path) if mmap else None
        return _load_archive(file, map_location, module, mapped, options)
    if mmap:
        raise RuntimeError(
            "mmap can only be used with files saved with `torch.save(..., "
            "_use_new_zipfile_serialization=True)`, please torch.save your checkpoint with this "
            "option in order to use mmap."
        )
    return legacy.load(file, map_location, unpickle, module, options)


def _load_archive(
    file: IO[bytes], map_location: MapLocation, module: Any, mapped: np.ndarray | None,
    options: dict[str, Any],
) -> Any:
    archive = ArchiveReader(file)
    if archive.has("constants.pkl"):
        if module is None:
            raise RuntimeError(
                "Cannot use ``weights_only=True`` with TorchScript archives passed to "
                f"``torch.load``. {UNSAFE_MESSAGE}"
            )
        raise NotImplementedError("load: flambeau does not read TorchScript archives yet")
    source = StorageSource(archive, map_location, mapped)
    return unpickle(io.BytesIO(archive.read("data.pkl")), source, module, options)


def _map(path: str | None) -> np.ndarray:
    if path is None:
        raise ValueError("f must be a file path in order to use the mmap argument")
    mode: Literal["r+", "c"] = "r+" if Settings.mmap_flags == MAP_SHARED else "c"
    return np.memmap(path, np.uint8, mode).view(np.ndarray)


def _require_seekable(file: Any) -> None:
    try:
        file.seek(file.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the "
            "data into a buffer like io.BytesIO and try to load from it instead."
        ) from None


def _load_safetensors(path: str, map_location: MapLocation) -> Any:
    from .safetensors import load_file

    if map_location is not None and not isinstance(map_location, (str, bytes, device)):
        form = "dict" if isinstance(map_location, dict) else "callable"
        raise RuntimeError(
            f"Loading safetensors file with {form} map_location is not supported. Use a device "
            "string or torch.device instead."
        )
    target = map_location.decode() if isinstance(map_location, bytes) else map_location
    return load_file(path, device=str(target or "cpu"))


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """Return the names in a file that `load(weights_only=True)` does not allow yet. Loads nothing.

    >>> torch.save({"weight": torch.ones(2)}, "weights.pt")
    >>> torch.serialization.get_unsafe_globals_in_checkpoint("weights.pt")
    []
    """
    with _open_file(f) as file:
        if not is_archive(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        data = ArchiveReader(file).read("data.pkl")
    safe_names = safe_globals.get_user_globals() | safe_globals.default_globals()
    global_names = {".".join(pair) for pair in _iterate_globals(data)}
    return sorted(name for name in global_names if name not in safe_names)


def _iterate_globals(data: bytes) -> Iterator[tuple[str, str]]:
    strings: list[str] = []
    for code, argument, _ in pickletools.genops(data):
        if code.name == "GLOBAL":
            module, name = str(argument).split(" ", 1)
            yield unpickler.modernize_name(module, name)
        elif code.name == "STACK_GLOBAL" and len(strings) > 1:
            yield strings[-2], strings[-1]
        elif isinstance(argument, str):
            strings.append(argument)
