"""Machine code on disk: hits, damage, limits, other processes, places that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flambeau.native.foundation import disk_cache
from flambeau.native.jit import elf_loader

KEY = disk_cache.make_key("a", "b")


@pytest.fixture
def folder(settled: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "codes"))
    monkeypatch.delenv("FLAMBEAU_CACHE_SIZE", raising=False)
    return tmp_path / "codes"


def entry(folder: Path, key: str = KEY) -> Path:
    return folder / f"{key}.code"


def test_an_entry_is_found_again(folder: Path) -> None:
    assert disk_cache.get(KEY) is None
    disk_cache.store(KEY, b"code")
    assert disk_cache.get(KEY) == b"code"
    assert [path.name for path in folder.iterdir()] == [entry(folder).name]
    if os.name == "posix":
        assert folder.stat().st_mode & 0o077 == 0


def test_keys_depend_on_every_part_and_where_it_ends() -> None:
    keys = [
        disk_cache.make_key("a", "b"),
        disk_cache.make_key("ab", ""),
        disk_cache.make_key("ab"),
        disk_cache.make_key("a", "c"),
    ]
    assert len(set(keys)) == 4


@pytest.mark.parametrize("place", [0, 20, 60, -1])
def test_a_flipped_byte_is_noticed(folder: Path, place: int) -> None:
    disk_cache.store(KEY, bytes(100))
    data = bytearray(entry(folder).read_bytes())
    data[place] ^= 1
    entry(folder).write_bytes(data)
    assert disk_cache.get(KEY) is None


@pytest.mark.parametrize("length", [0, 10, 48, 90])
def test_a_truncated_entry_is_noticed(folder: Path, length: int) -> None:
    disk_cache.store(KEY, bytes(100))
    os.truncate(entry(folder), length)
    assert disk_cache.get(KEY) is None
    disk_cache.store(KEY, b"again")
    assert disk_cache.get(KEY) == b"again"


def test_an_entry_in_the_place_of_another_is_noticed(folder: Path) -> None:
    disk_cache.store(KEY, b"code")
    entry(folder).rename(entry(folder, "0" * 64))
    assert disk_cache.get("0" * 64) is None


def test_a_damaged_object_is_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = []
    compile = elf_loader.emit_object_code
    monkeypatch.setattr(
        elf_loader, "emit_object_code", lambda *a: compilations.append(a) or compile(*a))
    text = "define i64 @f() {\n  ret i64 12345\n}\n"

    def load() -> int:
        monkeypatch.setattr(elf_loader, "_codes", {})  # as in a new process
        elf_loader.load(text, ["f"])
        return len(compilations)

    assert [load(), load()] == [1, 1]
    for path in folder.iterdir():  # the processor's description is stored there as well
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert [load(), load()] == [2, 2]


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "1")
    keys = [disk_cache.make_key(str(i)) for i in range(30)]
    now = time.time()
    for i, key in enumerate(keys):
        disk_cache.store(key, bytes(100_000))
        if entry(folder, key).exists():
            os.utime(entry(folder, key), (now - 9000 + i, now - 9000 + i))
        disk_cache.get(keys[0])  # which makes it young
    remaining = [key for key in keys if entry(folder, key).exists()]
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 2**20 * 17 // 16
    assert keys[0] in remaining
    assert keys[-1] in remaining
    assert keys[1] not in remaining


def test_what_dead_processes_left_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    for name, age in (("old.part", 7200), ("new.part", 10)):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (time.time() - age,) * 2)
    monkeypatch.setattr(disk_cache, "_written", {})
    disk_cache.store(KEY, b"code")
    assert sorted(os.listdir(folder)) == sorted(["new.part", entry(folder).name])


def test_size_zero_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0")
    disk_cache.store(KEY, b"code")
    assert disk_cache.get(KEY) is None
    assert not folder.exists()
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "nonsense")
    assert disk_cache.limit_bytes() == 512 * 2**20


def test_places_that_cannot_be_written_are_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "file" / "below"))
    disk_cache.store(KEY, b"code")
    assert disk_cache.get(KEY) is None
    assert elf_loader.load("define i64 @g() {\n  ret i64 54321\n}\n", ["g"])["g"]


def test_a_read_only_folder_is_still_read(folder: Path) -> None:
    disk_cache.store(KEY, b"code")
    folder.chmod(0o500)
    try:
        disk_cache.store(disk_cache.make_key("other"), b"other")
        assert disk_cache.get(KEY) == b"code"
    finally:
        folder.chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files")
def test_entries_of_other_users_are_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_cache.store(KEY, b"code")
    mine = entry(folder).stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert (disk_cache.get(KEY) is None) == (mine != 0)
    assert not disk_cache._is_trusted(os.stat_result((0o100600, 0, 0, 1, mine + 2, 0, 0, 0, 0, 0)))


def test_several_processes_write_and_read(folder: Path) -> None:
    """Each writes each of ten entries many times, and reads only whole ones."""
    program = (
        "from flambeau.native.foundation import disk_cache as cache\n"
        "for i in range(30):\n"
        "    for k in range(10):\n"
        "        key = cache.make_key(str(k)); body = str(k).encode() * 5000\n"
        "        cache.store(key, body)\n"
        "        assert cache.get(key) == body, (i, k)\n"
    )
    root = Path(__file__).resolve().parents[3]
    running = [subprocess.Popen([sys.executable, "-c", program], cwd=root, stderr=subprocess.PIPE)
               for _ in range(4)]
    assert [(p.communicate()[1], p.returncode) for p in running] == [(b"", 0)] * 4
    assert len(os.listdir(folder)) == 10


def test_an_old_entry_that_cannot_be_touched_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_cache.store(KEY, b"code")
    os.utime(entry(folder), (0, 0))

    def refuse(*args: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "utime", refuse)
        assert disk_cache.get(KEY) == b"code"
    assert disk_cache.get(KEY) == b"code"
    assert entry(folder).stat().st_mtime > 1


def test_a_fifo_in_place_of_an_entry_is_a_miss(folder: Path) -> None:
    """Opening a FIFO for reading waits for a writer; a lookup must not."""
    folder.mkdir(parents=True, exist_ok=True)
    os.mkfifo(entry(folder))
    assert disk_cache.get(KEY) is None


def test_entries_that_others_can_write_are_not_run(folder: Path) -> None:
    disk_cache.store(KEY, b"code")
    assert disk_cache.get(KEY) == b"code"
    entry(folder).chmod(0o660)
    assert disk_cache.get(KEY) is None


def test_a_folder_that_anyone_can_write_gets_no_entries(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    disk_cache.store(KEY, b"code")
    assert list(folder.iterdir()) == []


def test_pruning_passes_over_dangling_links(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0.01")
    for number in range(8):
        disk_cache.store(f"{number:064x}", bytes(2000))
        (folder / f"link{number}.code").symlink_to(folder / "absent")
    disk_cache._prune(folder.as_posix(), 5000)
    stored = [path for path in folder.iterdir() if not path.is_symlink()]
    assert sum(path.stat().st_size for path in stored) <= 5000


def test_clearing_frees_all_entries(folder: Path) -> None:
    for number in range(3):
        disk_cache.store(f"{number:064x}", bytes(1000))
    stored_bytes = disk_cache.size_bytes()
    assert stored_bytes >= 3000
    assert disk_cache.clear() == stored_bytes
    assert disk_cache.size_bytes() == 0
