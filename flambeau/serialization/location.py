"""Locations: tags of the device where a storage was saved, and where it is loaded.

`map_location` (a tag, a device, a dict from tag to tag, or a function) decides; without it a
storage goes where its tag says. Other packages may register tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor.devices import META, device
from ..tensor.storage import UntypedStorage

Tagger = Callable[[Any], str | None]
Restorer = Callable[[Any, str], Any]
MapLocation = Callable[[Any, str], Any] | device | str | dict[str, str] | None


class MetaStorage:
    """A storage on the meta device: a size without memory."""

    device = META

    def __init__(self, size: int) -> None:
        self._size = size

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self._size

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """Return 0: there is no memory."""
        return 0


def _tag_cpu(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def _restore_cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _tag_meta(storage: Any) -> str | None:
    return "meta" if storage.device.type == "meta" else None


def _restore_meta(storage: Any, location: str) -> Any:
    return MetaStorage(storage.nbytes()) if location == "meta" else None


def _restore_cuda(storage: Any, location: str) -> Any:
    return validate_cuda_device(location) if location.startswith("cuda") else None


_registry: list[tuple[int, Tagger, Restorer]] = [
    (10, _tag_cpu, _restore_cpu),
    (20, lambda storage: None, _restore_cuda),
    (22, _tag_meta, _restore_meta),
]


def register_package(priority: int, tagger: Tagger, deserializer: Restorer) -> None:
    """Register functions that tag storages and restore tagged ones. Lower priorities go first.

    >>> def tag(storage):
    ...     return None  # not ours
    >>> torch.serialization.register_package(50, tag, lambda storage, location: None)
    """
    _registry.append((priority, tagger, deserializer))
    _registry.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """Return the tag of a storage's location. Raises RuntimeError if it is unknown.

    >>> torch.serialization.location_tag(torch.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _registry:
        tag = tagger(storage)
        if tag:
            return tag
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """Move a storage to the location of a tag. Raises RuntimeError for an unknown location.

    >>> storage = torch.ones(2).untyped_storage()
    >>> torch.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    for _, _, restore in _registry:
        restored = restore(storage, location)
        if restored is not None:
            return restored
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with "
        f"{location})"
    )


def validate_cuda_device(location: str) -> int:
    """Raise RuntimeError: flambeau cannot put a storage on a GPU.

    >>> torch.serialization.validate_cuda_device("cuda:0")
    Traceback (most recent call last):
        ...
    RuntimeError: Attempting to deserialize object on a CUDA device ('cuda:0') ...
    """
    raise RuntimeError(
        f"Attempting to deserialize object on a CUDA device ('{location}') but "
        "torch.cuda.is_available() is False. If you are running on a CPU-only machine, please use "
        "torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
    )


def restorer(map_location: MapLocation) -> Restorer:
    """Return a function (loaded storage, tag) -> storage at its target location."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        targets = map_location
        return lambda storage, tag: default_restore_location(storage, targets.get(tag, tag))
    if isinstance(map_location, bytes):
        map_location = map_location.decode()
    if isinstance(map_location, (str, device)):
        target = str(map_location)
        return lambda storage, tag: default_restore_location(storage, target)

    def call(storage: Any, tag: str) -> Any:
        restored = map_location(storage, tag)
        return default_restore_location(storage, tag) if restored is None else restored

    return call


def goes_to_meta(map_location: MapLocation) -> bool:
    """Return whether everything goes to the meta device, so that no bytes need to be read."""
    return isinstance(map_location, (str, device)) and str(map_location) == "meta"


def place_of(map_location: MapLocation, target: Any) -> Any:
    """Apply `map_location` to a device that a tensor names itself, apart from its storage."""
    if isinstance(map_location, dict):
        return map_location.get(str(target), target)
    return map_location if isinstance(map_location, (str, device)) else target


__all__ = [
    "MapLocation", "MetaStorage", "UntypedStorage", "default_restore_location", "goes_to_meta",
    "location_tag", "place_of", "register_package", "restorer", "validate_cuda_device",
]
