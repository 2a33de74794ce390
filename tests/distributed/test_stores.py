"""Key-value stores: the same operations on each kind; PyTorch's agree."""

from __future__ import annotations

import importlib
import pickle
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

SHORT = timedelta(milliseconds=60)


@pytest.fixture(params=["flambeau", pytest.param("torch", marks=pytest.mark.parity)])
def dist(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(f"{request.param}.distributed") if request.param == "flambeau" \
        else pytest.importorskip("torch.distributed")


@pytest.fixture(params=["hash", "tcp", "file", "prefix"])
def store(request: pytest.FixtureRequest, dist: Any, tmp_path: Path) -> Any:
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "store"), 1)
    if request.param == "hash":
        return dist.HashStore()
    served = dist.TCPStore("localhost", 0, None, True, timedelta(seconds=20))
    return served if request.param == "tcp" else dist.PrefixStore("part", served)


def test_values_and_counters(store: Any) -> None:
    store.set("color", "green")
    store.set("bytes", b"\xff\0\n")
    assert (store.get("color"), store.get("bytes")) == (b"green", b"\xff\0\n")
    assert [store.add("n", 3), store.add("n", -1), int(store.get("n"))] == [3, 2, 2]
    assert store.compare_set("c", "", "first") == b"first"
    assert store.compare_set("c", "other", "second") == b"first"
    assert store.compare_set("c", "first", "second") == b"second"
    assert store.compare_set("absent", "other", "second") == b"other"
    assert store.check(["color", "n"])
    assert not store.check(["color", "absent"])
    store.append("log", "a")
    store.append("log", "b")
    assert store.get("log") == b"ab"
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.multi_get(["y", "x"]) == [b"2", b"1"]


def test_keys_are_deleted_and_counted(dist: Any) -> None:
    store = dist.HashStore()
    before = store.num_keys()
    store.set("a", "1")
    assert store.num_keys() == before + 1
    assert store.delete_key("a")
    assert not store.delete_key("a")
    assert store.num_keys() == before


def test_waiting_ends(store: Any) -> None:
    with pytest.raises(RuntimeError, match=r"(?i)wait timeout"):
        store.wait(["absent"], SHORT)
    store.set_timeout(SHORT)
    assert store.timeout == SHORT
    with pytest.raises(RuntimeError, match=r"(?i)timeout"):
        store.get("absent")
    store.set("later", "1")  # an answer that came too late does not disturb the next one
    assert store.get("later") == b"1"


@pytest.mark.parametrize("store", ["hash", "tcp"], indirect=True)
def test_waiting_sees_what_another_thread_sets(store: Any) -> None:
    other = store.clone()
    timer = threading.Timer(0.1, lambda: other.set("key", "value"))
    timer.start()
    assert store.get("key") == b"value"
    timer.join()


@pytest.mark.parametrize("store", ["hash", "tcp"], indirect=True)
def test_queues(dist: Any, store: Any) -> None:
    store.queue_push("q", "1")
    store.queue_push("q", b"2")
    assert store.queue_len("q") == 2
    assert [store.queue_pop("q"), store.queue_pop("q")] == [b"1", b"2"]
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", False)
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError):
        store.queue_pop("q")


def test_a_pop_that_does_not_wait_cannot_lose_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client may pop the last value after this one has seen the queue's length."""
    dist = importlib.import_module("flambeau.distributed")
    store = dist.TCPStore("localhost", 0, None, True, SHORT)
    monkeypatch.setattr(dist.TCPStore, "queue_len", lambda self, key: 1)
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", False)


def test_prefixes_separate_keys(dist: Any) -> None:
    whole = dist.HashStore()
    first, second = dist.PrefixStore("a", whole), dist.PrefixStore("b", whole)
    first.set("k", "1")
    second.set("k", "2")
    assert (first.get("k"), second.get("k"), whole.get("a/k")) == (b"1", b"2", b"1")


def test_addresses_that_do_not_work(dist: Any) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(dist.DistNetworkError, match=r"port: \d+.*EADDRINUSE"):
            dist.TCPStore("localhost", port, None, True)
    with pytest.raises(dist.DistNetworkError, match="timed out after 300ms while trying to con"):
        dist.TCPStore("localhost", 1, None, False, timedelta(milliseconds=300))
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("localhost", 0, 2, True, timedelta(milliseconds=300))


def test_a_server_that_is_gone(dist: Any) -> None:
    server = dist.TCPStore("localhost", 0, None, True)
    client = dist.TCPStore("localhost", server.port, None, False)
    client.set("a", "1")
    del server
    with pytest.raises(dist.DistNetworkError):
        for _ in range(5):  # PyTorch's server may answer once more
            client.set("b", "2")


def test_strangers_do_not_end_the_server() -> None:
    dist: Any = importlib.import_module("flambeau.distributed")
    server = dist.TCPStore("localhost", 0, None, True)
    for text in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, pickle.dumps(server.port)):
        with socket.create_connection(("localhost", server.port)) as stranger:
            stranger.sendall(text)
    server.set("a", "1")
    assert server.get("a") == b"1"


def test_a_file_is_shared_by_processes_and_removed(tmp_path: Path) -> None:
    dist: Any = importlib.import_module("flambeau.distributed")
    path = tmp_path / "store"
    store = dist.FileStore(str(path), 2)
    program = (f"import flambeau.distributed as d; s = d.FileStore({str(path)!r}, 2); "
               "[s.add('n', 1) for _ in range(50)]; s.set('done', '1')")
    other = subprocess.Popen([sys.executable, "-c", program])
    for _ in range(50):
        store.add("n", 1)
    store.wait(["done"], timedelta(seconds=30))
    assert store.get("n") == b"100"
    assert other.wait() == 0
    del store
    assert not path.exists()


def test_a_store_of_the_users() -> None:
    dist: Any = importlib.import_module("flambeau.distributed")

    class Own(dist.Store):
        def __init__(self) -> None:
            super().__init__()
            self.values: dict[str, bytes] = {}

        def set(self, key: str, value: Any) -> None:
            self.values[key] = value

        def get(self, key: str) -> bytes:
            return self.values[key]

    part = dist.PrefixStore("p", Own())
    part.set("k", b"1")
    assert part.get("k") == b"1"
