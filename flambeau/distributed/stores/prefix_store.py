"""PrefixStore: a view of another store under a key prefix."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .store import Store


class PrefixStore(Store):
    """Prepends `prefix/` to each key, so that users of one store do not collide.

    >>> store = torch.distributed.HashStore()
    >>> torch.distributed.PrefixStore("layer1", store).set("scale", "2")
    >>> store.get("layer1/scale")
    b'2'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        if not isinstance(prefix, str) or not isinstance(store, Store):
            raise TypeError("PrefixStore(): expected a prefix (str) and a Store")
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The wrapped store."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store = self._store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    @property
    def timeout(self) -> timedelta:
        """The underlying store's timeout."""
        return self._store.timeout

    @property
    def is_served_here(self) -> bool:  # type: ignore[override]
        """Whether a thread of this process serves the underlying store."""
        return self._store.is_served_here

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def _add_prefix(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def _add_prefixes(self, keys: Sequence[str]) -> list[str]:
        return [self._add_prefix(key) for key in keys]

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._add_prefix(key), value)

    def get(self, key: str) -> bytes:
        return self._store.get(self._add_prefix(key))

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._add_prefix(key), amount)

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        return self._store.compare_set(self._add_prefix(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._add_prefix(key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check(self._add_prefixes(keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._store.wait(self._add_prefixes(keys), *(() if timeout is None else (timeout,)))

    def append(self, key: str, value: str | bytes) -> None:
        self._store.append(self._add_prefix(key), value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._store.multi_get(self._add_prefixes(keys))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._store.multi_set(self._add_prefixes(keys), values)

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()

    def list_keys(self) -> list[str]:
        start = f"{self._prefix}/"
        return [k.removeprefix(start) for k in self._store.list_keys() if k.startswith(start)]

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._store.queue_push(self._add_prefix(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._add_prefix(key), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._add_prefix(key))

    def clone(self) -> Store:
        return PrefixStore(self._prefix, self._store.clone())

    def __getattr__(self, name: str) -> Any:
        if name in ("host", "port", "path", "local_address"):  # the location of the store
            return getattr(self._store, name)
        raise AttributeError(f"'PrefixStore' object has no attribute '{name}'")
