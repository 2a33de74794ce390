"""What LLVM says of the processor, asked once and kept on disk by what the system says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flambeau.native.target import cpu
from flambeau.native.target.machine import llvm_version

SAID = """processor\t: {number}
vendor_id\t: GenuineIntel
model\t\t: 143
cpu MHz\t\t: {number}000.1
flags\t\t: fpu {flags}

processor\t: 1
flags\t\t: another
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """How often LLVM is asked, with nothing kept."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cpu, "_CPUINFO", str(tmp_path / "cpuinfo"))
    monkeypatch.setattr("sys.platform", "linux")
    questions: list[str] = []
    answer = cpu._query_llvm()
    monkeypatch.setattr(cpu, "_query_llvm", lambda: questions.append("asked") or answer)
    return questions


def test_llvm_is_asked_once(asked: list[str], tmp_path: Path) -> None:
    said = tmp_path / "cpuinfo"
    said.write_text(SAID.format(number=0, flags="avx2"))
    first = cpu.describe_cpu("1")
    said.write_text(SAID.format(number=7, flags="avx2"))  # another core, at another speed
    assert cpu.describe_cpu("1") == first == cpu.describe_cpu("1")
    assert len(asked) == 1
    assert first[2] and all(feature[0] in "+-" for feature in first[2])


def test_another_processor_or_version_is_another_answer(asked: list[str], tmp_path: Path) -> None:
    said = tmp_path / "cpuinfo"
    for flags in ("avx2", "avx2 avx512f", "avx2"):
        said.write_text(SAID.format(number=0, flags=flags))
        cpu.describe_cpu("1")
    cpu.describe_cpu("2")
    assert len(asked) == 3


def test_what_the_system_does_not_tell_is_asked_each_time(
    asked: list[str], tmp_path: Path
) -> None:
    cpu.describe_cpu("1")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\n")
    cpu.describe_cpu("1")
    assert len(asked) == 2


def test_the_version_is_that_of_the_library() -> None:
    import llvmlite

    assert llvmlite.__version__ in llvm_version()
